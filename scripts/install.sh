#!/bin/sh
# Installs what tests run and Go does not bring, if it is missing, with the package
# manager that is there.
#
#	scripts/install.sh redis-server|postgresql|mariadb-server|promtool
set -eu

command=$1
package=$1
case $command in
redis-server) brew=redis apk=redis by_hand="Redis 6.2 or later by hand (https://redis.io/downloads)" ;;
postgresql) brew=postgresql@17 apk=postgresql by_hand="PostgreSQL by hand (https://www.postgresql.org/download)" ;;
promtool) package=prometheus brew=prometheus apk=prometheus by_hand="Prometheus by hand (https://prometheus.io/download)" ;;
mariadb-server) brew=mariadb apk=mariadb by_hand="MariaDB by hand (https://mariadb.org/download)" ;;
*)
	echo "install: unknown package '$command'" >&2
	exit 2
	;;
esac

# sudo asks for a password only on a terminal.
ask=-n
if [ -t 0 ]; then ask=; fi

have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif ! have sudo; then
		echo "install: '$*' needs root, and there is no sudo" >&2
		return 1
	else
		sudo $ask "$@"
	fi
}

with_apt() {
	# A broken third-party list must not keep us from the distribution's own.
	as_root apt-get -o DPkg::Lock::Timeout=120 update ||
		echo "install: apt-get update failed, trying to install anyway" >&2
	# In runlevel 1 the package starts no service: the tests run servers of their own.
	as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
		apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "$package"
}

# Debian and Homebrew keep the programs of a PostgreSQL server out of the PATH.
there() {
	if [ "$command" = postgresql ]; then
		have postgres && return
		for postgres in /usr/lib/postgresql/*/bin/postgres /opt/homebrew/opt/postgresql@*/bin/postgres /usr/local/opt/postgresql@*/bin/postgres; do
			[ ! -x "$postgres" ] || return 0
		done
		return 1
	elif [ "$command" = mariadb-server ]; then
		have mariadbd || [ -x /usr/sbin/mariadbd ]
	else
		have "$command"
	fi
}

there && exit 0
echo "install: $command is missing, installing it" >&2

if have apt-get; then
	with_apt </dev/null || true
elif have brew; then
	brew install "$brew" </dev/null || true
elif have apk; then
	as_root apk add --no-cache "$apk" </dev/null || true
fi

if ! there; then
	cat >&2 <<-MESSAGE
		install: could not install $command.
		Install $by_hand, then run this again.
	MESSAGE
	exit 1
fi
