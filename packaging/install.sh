#!/bin/sh
# Installs dl, and with --server also deeplink-server, for this user: static programs, which run on any Linux.
#
#   curl -fsSO @RELEASES@/install.sh
#   sh install.sh
#
# DEEPLINK_RELEASES can be set to the URL of another folder with the files of a release and their SHA256SUMS. Nothing
# outside the chosen directories is changed, and nothing is installed unless its checksum matches and it runs here.
set -eu

# packaging/build writes the URL.
published='@RELEASES@'

usage() {
    cat <<'USAGE'
usage: [DEEPLINK_RELEASES=URL] sh install.sh [--server] [--dir DIR]

  --server     install deeplink-server, too
  --dir DIR    directory for the binaries (default: ~/.local/bin); manual pages and completions are installed
               in the share directory next to it
USAGE
}

fail() {
    printf '%s\n' "install.sh: $*" >&2
    exit 1
}

programs=dl
dir=${HOME:-}/.local/bin
while [ $# -gt 0 ]; do
    case $1 in
    --server) programs="dl deeplink-server" ;;
    --dir | --dir=)
        if [ "$1" = --dir= ] || [ $# -lt 2 ] || [ -z "$2" ]; then fail "--dir requires a directory"; fi
        dir=$2
        shift
        ;;
    --dir=*) dir=${1#--dir=} ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done

case $dir in
/.local/bin) fail "HOME is not set; choose a directory with --dir" ;;
/*) ;;
*) dir=$(pwd)/$dir ;;
esac
case $published in
@*) published= ;;
esac
releases=${DEEPLINK_RELEASES:-$published}
releases=${releases%/}
# Only https, including after redirects; http is for tests on this machine.
protocol=https
case $releases in
https://*) ;;
http://*@*) fail "DEEPLINK_RELEASES must be an https URL" ;;
http://localhost | http://localhost[:/]* | http://127.0.0.1 | http://127.0.0.1[:/]*) protocol=http ;;
'') fail "set DEEPLINK_RELEASES to the URL of a release, such as https://example.com/deeplink" ;;
*) fail "DEEPLINK_RELEASES must be an https URL" ;;
esac

system=$(uname -s)-$(uname -m)
case $system in
Linux-x86_64 | Linux-amd64) target=x86_64-unknown-linux-musl ;;
Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
*) fail "there are no binaries for $system; use Homebrew, or build from source" ;;
esac
for tool in tar gzip; do
    if ! command -v "$tool" >/dev/null; then fail "$tool is missing"; fi
done

if command -v sha256sum >/dev/null; then
    checksum() { sha256sum "$1" | cut -d' ' -f1; }
elif command -v shasum >/dev/null; then
    checksum() { shasum -a 256 "$1" | cut -d' ' -f1; }
else
    fail "sha256sum is missing"
fi
if command -v curl >/dev/null; then
    download() { curl -fsSL --proto "=$protocol" --proto-redir "=$protocol" --retry 3 -o "$2" "$1"; }
elif command -v wget >/dev/null; then
    # BusyBox has no such option.
    only=
    if [ "$protocol" = https ] && wget --help 2>&1 | grep -q -e --https-only; then only=--https-only; fi
    download() { wget -q ${only:+"$only"} -O "$2" "$1"; }
else
    fail "curl or wget is required"
fi

work=$(mktemp -d)
# What root installs is for all users, whatever root's own files are.
umask 022
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
download "$releases/SHA256SUMS" "$work/SHA256SUMS" || fail "$releases/SHA256SUMS cannot be downloaded"

newline='
'
# Everything is downloaded and checked before anything is installed.
for program in $programs; do
    # A line is: HASH, two spaces, NAME. The version contains no hyphen but that of a pre-release.
    line=$(grep "  $program-[0-9][A-Za-z0-9.-]*-$target\.tar\.gz\$" "$work/SHA256SUMS" || true)
    case $line in
    '') fail "$releases has no $program for $target" ;;
    *"$newline"*) fail "$releases has several versions of $program for $target" ;;
    esac
    expected=${line%% *}
    archive=${line##* }
    download "$releases/$archive" "$work/$program.tar.gz" || fail "$releases/$archive cannot be downloaded"
    found=$(checksum "$work/$program.tar.gz")
    if [ "$found" != "$expected" ]; then
        fail "the checksum of $archive does not match; nothing was installed (expected $expected, found $found)"
    fi
    mkdir "$work/$program"
    gzip -dc "$work/$program.tar.gz" | (cd "$work/$program" && tar -xf -) || fail "$archive cannot be unpacked"
    mv "$work/$program/${archive%.tar.gz}" "$work/$program/files"
    if [ ! -x "$work/$program/files/bin/$program" ]; then fail "$archive does not contain $program"; fi
done

share=$(dirname "$dir")/share
mkdir -p "$dir" || fail "$dir cannot be created; choose another directory with --dir"
trap 'rm -rf "$work"; for program in $programs; do rm -f "$dir/.$program.new"; done' EXIT
# Each is tried where it will be, because programs in the temporary directory may not be executable.
for program in $programs; do
    if [ -d "$dir/$program" ]; then fail "$dir/$program is a directory; choose another directory with --dir"; fi
    new=$dir/.$program.new
    cp "$work/$program/files/bin/$program" "$new" || fail "$dir cannot be written; choose another directory with --dir"
    "$new" --version || fail "this $program does not run here; nothing was installed"
done
for program in $programs; do
    # Renamed into place, because a running program cannot be overwritten.
    mv -f "$dir/.$program.new" "$dir/$program" || fail "$dir/$program cannot be written; choose another directory with --dir"
    if mkdir -p "$share" 2>/dev/null; then
        cp -R "$work/$program/files/share/." "$share/" || fail "$share cannot be written"
    else
        printf '%s\n' "install.sh: $share cannot be created; manual pages and completions were not installed" >&2
    fi
done
echo "Installed in $dir"
case :$PATH: in
*":$dir:"*) ;;
*) echo "$dir is not in PATH; add this line to your shell's profile:" && echo "  export PATH=\"$dir:\$PATH\"" ;;
esac
