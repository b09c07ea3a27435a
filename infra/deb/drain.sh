# A worker, glovebox-runtime, glovebox-agent and runsc have to be of one version, so the worker is
# drained before the first of them is replaced. glovebox-worker's postinst starts it again. One that is still stopping,
# or that is about to be restarted, isn't active, and is waited for, too.
# shellcheck shell=sh
drain_worker() {
    [ -d /run/systemd/system ] || return 0
    case $(systemctl is-active glovebox-worker.service) in inactive | failed) return 0 ;; esac
    touch /run/glovebox-worker-drained
    systemctl stop glovebox-worker.service glovebox-podman.socket glovebox-podman.service
}
