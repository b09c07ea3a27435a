# A worker, glovebox-runtime, glovebox-agent and runsc have to be of one version, so the worker is
# drained before the first of them is replaced, and started again by glovebox-worker's postinst. One that is still stopping,
# or that is about to be restarted, isn't active, and is waited for, too.
# shellcheck shell=sh
drain_worker() {
    [ -d /run/systemd/system ] || return 0
    case $(systemctl is-active glovebox-worker.service) in inactive | failed) return 0 ;; esac
    # One that is being stopped and isn't enabled is to stay away. One that is being restarted stops, too, but its job is another.
    job=$(systemctl --no-legend list-jobs glovebox-worker.service) || true
    if [ "${job#* stop }" = "$job" ] || systemctl --quiet is-enabled glovebox-worker.service; then
        touch /run/glovebox-worker-drained
    fi
    systemctl stop glovebox-worker.service glovebox-podman.socket glovebox-podman.service
}

# resume_worker starts a worker that was drained, also one whose unit isn't enabled: deb-systemd-invoke leaves such a
# unit alone and ends with status 0, as it does where policy-rc.d forbids a start.
resume_worker() {
    status=0
    [ ! -x /usr/sbin/policy-rc.d ] || /usr/sbin/policy-rc.d glovebox-worker.service start || status=$?
    if [ "$status" = 101 ]; then
        echo "  to do     the worker ran and was stopped, and /usr/sbin/policy-rc.d forbids its start: systemctl start glovebox-worker"
    else
        systemctl start glovebox-worker.service || echo "  to do     the worker doesn't start: journalctl -u glovebox-worker says why"
    fi
}
