#!/usr/bin/env bash
# Install what llmtrain needs: Debian packages, and .venv with the torch wheel. Only what is missing is
# touched, so running it again is quick.
#   scripts/setup.sh             build and run on CPUs
#   scripts/setup.sh --cuda      and all CUDA wheels, for the CUDA engine
#   scripts/setup.sh --oracles   and Python torch and transformers, for the oracle tests (includes --cuda)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv

profile=cpu
for argument in "$@"; do
  case $argument in
    --cuda) [ "$profile" = oracles ] || profile=cuda ;;
    --oracles) profile=oracles ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "setup: unknown argument $argument; allowed are --cuda and --oracles" >&2; exit 2 ;;
  esac
done

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }

# One set-up at a time in this tree; the lock goes with the process.
mkdir -p "$root/build"
exec 9>"$root/build/.setup.lock"
flock 9

# ---- Debian packages ---------------------------------------------------------------------------------
installed() { [ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" = "install ok installed" ]; }

missing_packages() {
  local package
  grep -v -e '^#' -e '^$' "$root/scripts/debian-packages.txt" | while read -r package; do
    installed "$package" || echo "$package"
  done
}

install_packages() {
  local packages=("$@")
  if [ "$(id -u)" -ne 0 ]; then
    die "these packages are missing: ${packages[*]}; install them with: sudo apt-get install -y ${packages[*]}"
  fi
  export DEBIAN_FRONTEND=noninteractive
  local apt=(apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 -qq)
  say "installing ${packages[*]}"
  dpkg --configure -a  # finishes what an interrupted installation left
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${packages[@]}" >"$root/build/setup-apt.log" 2>&1 ||
    { tail -n 20 "$root/build/setup-apt.log" >&2; die "apt-get failed; its output is in build/setup-apt.log"; }
}

if command -v dpkg-query >/dev/null; then
  mapfile -t packages < <(missing_packages)
  [ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}"
else
  say "this is not a Debian system; make sure that it has what scripts/debian-packages.txt names"
fi

# ---- .venv -------------------------------------------------------------------------------------------
complete() {
  [ -x "$venv/bin/python" ] && "$venv/bin/python" "$root/scripts/check_venv.py" "$profile" "$torch_version"
}

# The first Python that can make a virtual environment and that the wheel supports.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  die "no Python 3.10 or newer with venv was found; install python3 and python3-venv"
}

pip_install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

fill_venv() {
  case $profile in
    cpu) pip_install --no-deps "torch==$torch_version" 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cupti==13.0.*' ;;
    cuda) pip_install "torch==$torch_version" ;;
    oracles) pip_install "torch==$torch_version" -r "$root/scripts/oracle-requirements.txt" ;;
  esac
}

torch_version=$(sed -n 's/^set(LLMTRAIN_TORCH_VERSION \([0-9.]*\))$/\1/p' "$root/cmake/Libtorch.cmake")
[ -n "$torch_version" ] || die "cmake/Libtorch.cmake does not state LLMTRAIN_TORCH_VERSION"

if ! why=$(complete 2>&1); then
  if [ -L "$venv" ]; then
    die ".venv is a link to $(readlink -f "$venv"), which lacks something ($why); remove the link or complete its target"
  fi
  # A sound environment is added to; anything half-made is made anew, since pip trusts what it finds.
  if ! "$venv/bin/python" "$root/scripts/check_venv.py" sound "$torch_version" >/dev/null 2>&1; then
    rm -rf "$venv"
    "$(find_python)" -m venv "$venv"
  fi
  say "installing the $profile wheels of torch $torch_version into .venv"
  fill_venv
  why=$(complete 2>&1) || die ".venv is still incomplete: $why"
fi
say "ready ($profile, torch $torch_version)"
