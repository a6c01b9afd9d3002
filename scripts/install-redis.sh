#!/bin/sh
# Installs redis-server, if it is missing, with the package manager that is there.
set -eu

# sudo asks on the terminal, if somebody is there to type a password.
ask=-n
if [ -t 0 ]; then ask=; fi

have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif ! have sudo; then
		echo "install-redis: '$*' needs root, and there is no sudo" >&2
		return 1
	else
		sudo $ask "$@"
	fi
}

with_apt() {
	# A broken third-party list must not keep us from the distribution's own.
	as_root apt-get -o DPkg::Lock::Timeout=120 update ||
		echo "install-redis: apt-get update failed, trying to install anyway" >&2
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends redis-server
}

have redis-server && exit 0
echo "install-redis: redis-server is missing, installing it" >&2

if have apt-get; then
	with_apt </dev/null || true
elif have brew; then
	brew install redis </dev/null || true
elif have apk; then
	as_root apk add --no-cache redis </dev/null || true
fi

if ! have redis-server; then
	cat >&2 <<-'MESSAGE'
		install-redis: could not install redis-server.
		Install Redis 6.2 or later by hand (https://redis.io/downloads) so that
		'redis-server --version' works, then run this again.
	MESSAGE
	exit 1
fi
redis-server --version >&2
