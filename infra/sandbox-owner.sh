# Sourced by setup.sh, worker-host.sh, install.sh and the maintainer scripts of the package glovebox-worker, as
# root: what a machine has to know of the user who owns sandboxes.
#
# What breaks out of a sandbox is that user. So it owns nothing else, and nobody does anything
# because it asks.
# shellcheck shell=bash

# add_sandbox_owner USER makes the user.
add_sandbox_owner() {
    id "$1" >/dev/null 2>&1 && return
    useradd --system --user-group --create-home --home-dir "/var/lib/$1" --shell /usr/sbin/nologin "$1"
    say user "added $1, which will run Podman"
}

# add_worker_user makes the user who runs the worker.
add_worker_user() {
    id glovebox-worker >/dev/null 2>&1 && return
    useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin glovebox-worker
    say user "added glovebox-worker, which will run the worker"
}

# give_subordinate_ids USER gives the user the ids that sandboxes' files belong to, behind the
# last range that is there.
give_subordinate_ids() {
    local kind first
    for kind in uid gid; do
        grep -qs "^$1:" "/etc/sub$kind" && continue
        first=$(awk -F: 'BEGIN { n = 100000 } $2 + $3 > n { n = $2 + $3 } END { print n }' "/etc/sub$kind" 2>/dev/null || echo 100000)
        as_root usermod "--add-sub${kind}s" "$first-$((first + 65535))" "$1"
        say user "gave $1 the subordinate ${kind}s $first-$((first + 65535))"
    done
}

# close_home USER: sshd and others do what files in a home tell them (.ssh/authorized_keys), so the
# home is root's, and in it the user has the places that Podman and tests write to. The home of
# somebody who was there before us is theirs.
close_home() {
    local user=$1 home=/var/lib/$1 place
    [ "$(getent passwd "$user" | cut -d: -f6)" = "$home" ] || return 0
    chown "root:$(id -g "$user")" "$home"
    chmod 750 "$home"
    # Now nobody puts a link in their place any more.
    for place in .cache .config .local; do
        [ ! -L "$home/$place" ] || rm "$home/$place"
        [ -d "$home/$place" ] || install -d -m 700 -o "$user" -g "$(id -g "$user")" "$home/$place"
    done
    find "$home" -mindepth 1 -maxdepth 1 ! -user root ! -name .cache ! -name .config ! -name .local -exec rm -rf {} +
}

# deny_helpers USER: the user must not get out of its unit by asking others to run something: a
# systemd of its own, which anybody may have who asks to linger; cron; at. (sshd, which forwards
# ports for users without a shell, too, has sshd.conf.)
deny_helpers() {
    local file
    systemctl --quiet mask "user@$(id -u "$1").service"
    for file in /etc/cron.deny /etc/at.deny; do
        # Without at.deny, nobody but root may use at.
        [ "$file" = /etc/cron.deny ] || [ -e "$file" ] || continue
        grep -qsx "$1" "$file" || echo "$1" >>"$file"
    done
}

# allow_helpers USER undoes what deny_helpers did.
allow_helpers() {
    local file
    systemctl --quiet unmask "user@$(id -u "$1").service"
    for file in /etc/cron.deny /etc/at.deny; do
        [ -e "$file" ] || continue
        sed -i "/^$1\$/d" "$file"
    done
    # It was made for this user where nobody else is in it.
    [ -s /etc/cron.deny ] || rm -f /etc/cron.deny
}

# put_settings NAME FILE makes /etc/glovebox/NAME of the template FILE, unless it is there. It will
# hold secrets.
put_settings() {
    local file=/etc/glovebox/$1
    if [ ! -e "$file" ]; then
        (umask 077 && cp "$2" "$file.new" && chmod 600 "$file.new" && mv "$file.new" "$file")
        say installed "$file"
    fi
    chown root:root "$file"
    chmod 600 "$file"
}

# is_configured FILE reports whether such a file was filled in.
is_configured() { grep -qsE '^GLOVEBOX_REDIS_URL(_FILE)?=.' "$1"; }
