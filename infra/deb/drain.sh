# A worker, glovebox-runtime, glovebox-agent and runsc have to be of one version, so the worker is
# drained before the first of them is replaced. glovebox-worker's postinst starts it again.
# shellcheck shell=sh
drain_worker() {
    [ -d /run/systemd/system ] && systemctl --quiet is-active glovebox-worker.service || return 0
    touch /run/glovebox-worker-drained
    systemctl stop glovebox-worker.service glovebox-podman.socket glovebox-podman.service
}
