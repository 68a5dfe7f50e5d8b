#!/bin/sh
# Creates the bus identities, the signing key and the server configuration, each in the volume of its owner. Existing keys stay,
# so it is safe to run again. Usage: gatewright-provision [NUMBER OF SERVERS]
set -eu
umask 077
servers=${1:-1}
all=/srv/identities

set --
for publisher in ${GATEWRIGHT_PUBLISHERS:-}; do
    set -- "$@" --publisher "$publisher"
done
# A mounted volume named ROLE-NAME or publisher-NAME requests that identity.
for folder in /srv/share/*-*/; do
    [ -d "$folder" ] || continue
    identity=$(basename "$folder")
    case $identity in
    publisher-*) set -- "$@" --publisher "${identity#publisher-}" ;;
    *) set -- "$@" --process "$identity" ;;
    esac
done
gatewright keys bus --into "$all" "$@"

# Only the gatekeeper gets the signing key. The public key is in the volume that verifiers mount.
GATEWRIGHT_HOME=/srv/gatekeeper gatewright keys init

# One volume per identity, so a compromised service can use only its own identity.
for folder in /srv/share/*/; do
    identity=$(basename "$folder")
    # The live page reads as watcher and observer, sends signed decisions as approver and submits as publisher. Users sign in
    # with tokens.
    if [ "$identity" = console ]; then
        install -m 0600 "$all/watcher.nk" "$all/observer.nk" "$all/approver.nk" "$all/publisher.nk" "$folder"
        for role in viewer approver operator; do
            [ -s "$folder/$role.token" ] && continue
            python -c 'import secrets; print(secrets.token_hex(32))' >"$folder/.token"
            mv "$folder/.token" "$folder/$role.token"
        done
        continue
    fi
    # Only retention may both write the ledger and delete from it.
    if [ "$identity" = retention ]; then
        install -m 0600 "$all/gatekeeper.nk" "$all/provisioner.nk" "$folder"
        continue
    fi
    # forge reads as watcher and submits as publisher-forge, if GATEWRIGHT_PUBLISHERS names it.
    if [ "$identity" = forge ]; then
        install -m 0600 "$all/watcher.nk" "$folder"
        [ ! -s "$all/publisher-forge.nk" ] || install -m 0600 "$all/publisher-forge.nk" "$folder"
        continue
    fi
    install -m 0600 "$all/$identity.nk" "$folder"
done

render() {
    folder=$1
    shift
    gatewright topology --format nats-conf --keys "$all" --store /data \
        --listen 0.0.0.0:4222 --monitor "${GATEWRIGHT_NATS_MONITOR:-127.0.0.1:8222}" "$@" >"$folder/.nats.conf"
    mv "$folder/.nats.conf" "$folder/nats.conf"
}

if [ "$servers" -eq 1 ]; then
    render /srv/nats-1
    exit
fi

# The cluster password of the servers. It is in a file, because the engine shows environment variables.
password=$all/cluster-password
if [ ! -s "$password" ]; then
    python -c 'import secrets; print("k" + secrets.token_hex(32))' >"$password"
fi
routes=$(seq "$servers" | sed 's|.*|--route nats://nats-&:6222|')
for number in $(seq "$servers"); do
    # Split the routes into words.
    # shellcheck disable=SC2086
    render "/srv/nats-$number" --server-name "nats-$number" --cluster-name gatewright --cluster-listen 0.0.0.0:6222 $routes
    install -m 0600 "$password" "/srv/nats-$number/cluster-password"
done
