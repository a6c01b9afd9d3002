#!/bin/sh
# Installs prometheus, if it is missing, with the package manager that is there.
set -eu

# sudo asks on the terminal, if somebody is there to type a password.
ask=-n
if [ -t 0 ]; then ask=; fi

have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif ! have sudo; then
		echo "install-prometheus: '$*' needs root, and there is no sudo" >&2
		return 1
	else
		sudo $ask "$@"
	fi
}

with_apt() {
	# A broken third-party list must not keep us from the distribution's own.
	as_root apt-get -o DPkg::Lock::Timeout=120 update ||
		echo "install-prometheus: apt-get update failed, trying to install anyway" >&2
	# In runlevel 1 the package starts no service: the tests run servers of their own.
	as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
		apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends prometheus
}

have prometheus && exit 0
echo "install-prometheus: prometheus is missing, installing it" >&2

if have apt-get; then
	with_apt </dev/null || true
elif have brew; then
	brew install prometheus </dev/null || true
elif have apk; then
	as_root apk add --no-cache prometheus </dev/null || true
fi

if ! have prometheus; then
	cat >&2 <<-'MESSAGE'
		install-prometheus: could not install prometheus.
		Install Prometheus 2.42 or later by hand (https://prometheus.io/download) so that
		'prometheus --version' works, then run this again.
	MESSAGE
	exit 1
fi
prometheus --version >&2
