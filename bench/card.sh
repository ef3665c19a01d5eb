# Creates a machine for a server behind a shared network card, as two network namespaces.
#
#     sh card.sh NAME OUTSIDE NUMBER
#
# The namespace NAME-host is the host, with a bridge between its card and the server's machine. Neighbours send from this
# namespace. The namespace NAME is the machine: its interface eth0 has the server's address, 127.78.0.NUMBER. The card is a
# veth pair with a token bucket in each direction, and its other end is OUTSIDE. Both buckets are outside the machine, so a
# capture in the machine does not contain datagrams that wait in them.
set -eu
name=$1 outside=$2 number=$3
# 10 Mbit/s, and a queue of up to 100 ms.
bucket="tbf rate 10mbit burst 5kb limit 128kb"

ip netns add "$name-host"
ip netns add "$name"
ip link add "$outside" type veth peer name card netns "$name-host"
ip link add eth0 netns "$name" type veth peer name guest netns "$name-host"
ip -n "$name-host" link add bridge0 type bridge
for port in card guest; do
	ip -n "$name-host" link set "$port" master bridge0 up
done
ip -n "$name-host" link set bridge0 up
ip -n "$name-host" addr add "10.78.$number.2/24" dev bridge0
ip addr add "10.78.$number.1/24" dev "$outside"
ip link set "$outside" up
ip -n "$name" link set eth0 up

# Servers have loopback addresses, as without namespaces. Other loopback addresses are reached through the card.
echo 1 >"/proc/sys/net/ipv4/conf/$outside/route_localnet"
ip netns exec "$name" sh -c 'echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet'
ip route add "127.78.0.$number/32" dev "$outside" table local
ip -n "$name" addr add "127.78.0.$number/32" dev eth0
ip -n "$name" route add 127.0.0.0/8 dev eth0

# shellcheck disable=SC2086
tc qdisc add dev "$outside" root $bucket
# shellcheck disable=SC2086
tc -n "$name-host" qdisc add dev card root $bucket
