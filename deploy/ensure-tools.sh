#!/bin/sh
# What a machine needs before the Makefile can work: Python 3.11 or newer with venv, and git.
# Installs what is missing with apt-get when it may; otherwise says what to install.
# usage: ensure-tools.sh [PYTHON]
set -eu
python=${1:-python3}
missing=""

command -v git >/dev/null 2>&1 || missing="$missing git"
if command -v "$python" >/dev/null 2>&1; then
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "error: $python is older than Python 3.11" >&2
    echo "hint: install Python 3.11 and run make with PYTHON=/path/to/python3.11" >&2
    exit 1
  }
  "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3-venv"
else
  missing="$missing python3 python3-venv"
fi

[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing:$missing" >&2
  apt-get update -qq
  # shellcheck disable=SC2086 # a list of package names
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
  echo "error: this machine lacks:$missing" >&2
  echo "hint: install them, for example with: sudo apt-get install$missing" >&2
  exit 1
fi
