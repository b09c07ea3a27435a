#!/bin/bash
# Builds the runsc that Glovebox runs sandboxes in, of the version in infra/runsc/version:
#
#   infra/runsc/build.sh OUT          for this machine
#   infra/runsc/build.sh OUT arm64    for a machine of another kind; amd64 or arm64
#
# The filters that gVisor's releases have in them are compiled into it: built as its Go module
# is, runsc compiles them at every start of a sandbox, a fifth of its CPU time. What compiles
# them has to run as a program of the kind of machine that they are for: for another than this
# one, install qemu-user-static.
set -eu -o pipefail
here=$(dirname "$(readlink -f "$0")")
out=$(readlink -m "$1")
version=$(cat "$here/version")
export CGO_ENABLED=0 GOFLAGS='-trimpath -gcflags=all=-dwarf=false' # no debugging information: -w below
host=$(go env GOHOSTARCH)
arch=${2:-$host}

run=()
if [ "$arch" != "$host" ]; then
    case $arch in
    amd64) emulator=qemu-x86_64-static ;;
    arm64) emulator=qemu-aarch64-static ;;
    *) echo "runsc/build.sh: for amd64 and arm64, not '$arch'" >&2 && exit 2 ;;
    esac
    command -v "$emulator" >/dev/null || { echo "runsc/build.sh: for $arch it needs $emulator: apt-get install qemu-user-static" >&2 && exit 1; }
    run=(-exec "$emulator")
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/precompile.go" "$work/"
cd "$work"
printf 'module runsc\n\ngo 1.26\n' >go.mod
go get -tool "gvisor.dev/gvisor/runsc@$version"
go mod vendor
export GOARCH=$arch

# change FILE SCRIPT has precompile.go see a file of gVisor's as sed makes it.
replaced=()
change() {
    local file=vendor/gvisor.dev/gvisor/$1 to=$work/changed${#replaced[@]}.go
    sed "$2" "$file" >"$to"
    ! cmp -s "$file" "$to" || { echo "runsc/build.sh: $1 is another than is known here: has gVisor changed?" >&2 && exit 1; }
    replaced+=("\"$work/$file\": \"$to\"")
}
# Of some two hundred filters only those that may be our sandboxes': precompile.go would drop the others.
change runsc/boot/filter/config/config_precompiled.go '/^\tprograms := make(/i\
	var kept []Options\
	for _, o := range opts {\
		if !o.HostNetwork \&\& !o.NVProxy \&\& !o.TPUProxy \&\& !o.RDMAProxy {\
			kept = append(kept, o)\
		}\
	}\
	opts = kept'
# A filter of systrap's has the id of the process that it is for, which would be precompile.go's, another each
# time. A sandbox's is 1, in a namespace of its own.
change pkg/sentry/platform/systrap/filters.go 's/seccomp.EqualTo(os.Getpid())/seccomp.EqualTo(min(os.Getpid(), 1))/'
# An emulator knows no seccomp. All that is asked of it is whether a filter may kill a process, which every
# kernel allows that sandboxes run on.
[ ${#run[@]} = 0 ] || change pkg/seccomp/seccomp_unsafe.go 's/^func isKillProcessAvailable() (bool, error) {$/&\n\tif true {\n\t\treturn true, nil\n\t}/'
printf '{"Replace": {%s}}' "$(IFS=, && echo "${replaced[*]}")" >overlay.json

# Without -buildid= the directory would get into what is built.
go run -overlay overlay.json "${run[@]}" precompile.go
go build -ldflags "-w -buildid= -X gvisor.dev/gvisor/runsc/version.version=$version" -o "$out" gvisor.dev/gvisor/runsc
