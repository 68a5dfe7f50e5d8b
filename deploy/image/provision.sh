#!/bin/sh
# Makes the identities of the bus, the signing key and the configuration of the servers, and puts each where only its owner looks.
# What is there stays, so it is safe to run again. Usage: gatewright-provision [NUMBER OF SERVERS]
set -eu
umask 077
servers=${1:-1}
all=/srv/identities

set --
for publisher in ${GATEWRIGHT_PUBLISHERS:-}; do
    set -- "$@" --publisher "$publisher"
done
# A volume for one more process of a role, or for a publisher, asks for its identity.
for folder in /srv/share/*-*/; do
    [ -d "$folder" ] || continue
    identity=$(basename "$folder")
    case $identity in
    publisher-*) set -- "$@" --publisher "${identity#publisher-}" ;;
    *) set -- "$@" --process "$identity" ;;
    esac
done
gatewright keys bus --into "$all" "$@"

# The key that signs bundles stays with the gatekeeper; its public half lies where those who verify may look.
GATEWRIGHT_HOME=/srv/gatekeeper gatewright keys init

# One volume per identity: a service that is taken over can speak as itself alone.
for folder in /srv/share/*/; do
    identity=$(basename "$folder")
    # The live page looks as a watcher and an observer, brings signed decisions as an approver and submits as a publisher; people sign in by tokens.
    if [ "$identity" = console ]; then
        install -m 0600 "$all/watcher.nk" "$all/observer.nk" "$all/approver.nk" "$all/publisher.nk" "$folder"
        for role in viewer approver operator; do
            [ -s "$folder/$role.token" ] && continue
            python -c 'import secrets; print(secrets.token_hex(32))' >"$folder/.token"
            mv "$folder/.token" "$folder/$role.token"
        done
        continue
    fi
    # Rounds of retention write the ledger and take out of it: no other process may do both.
    if [ "$identity" = retention ]; then
        install -m 0600 "$all/gatekeeper.nk" "$all/provisioner.nk" "$folder"
        continue
    fi
    # It looks as a watcher, and orders runs as a publisher that has to be named.
    if [ "$identity" = forge ]; then
        install -m 0600 "$all/watcher.nk" "$folder"
        [ ! -s "$all/publisher-forge.nk" ] || install -m 0600 "$all/publisher-forge.nk" "$folder"
        continue
    fi
    install -m 0600 "$all/$identity.nk" "$folder"
done

render() {
    place=$1
    shift
    gatewright topology --format nats-conf --keys "$all" --store /data \
        --listen 0.0.0.0:4222 --monitor "${GATEWRIGHT_NATS_MONITOR:-127.0.0.1:8222}" "$@" >"$place/.nats.conf"
    mv "$place/.nats.conf" "$place/nats.conf"
}

if [ "$servers" -eq 1 ]; then
    render /srv/nats-1
    exit
fi

# What the servers of the cluster know each other by; it is in no environment that the engine would show.
password=$all/cluster-password
if [ ! -s "$password" ]; then
    python -c 'import secrets; print("k" + secrets.token_hex(32))' >"$password"
fi
routes=$(seq "$servers" | sed 's|.*|--route nats://nats-&:6222|')
for number in $(seq "$servers"); do
    # The routes are words of their own.
    # shellcheck disable=SC2086
    render "/srv/nats-$number" --server-name "nats-$number" --cluster-name gatewright --cluster-listen 0.0.0.0:6222 $routes
    install -m 0600 "$password" "/srv/nats-$number/cluster-password"
done
