"""A machine with a faster or slower network, all else the same: what if bandwidth doubled?

with_network(hardware("v5p"), 2.0)      links of twice as many bytes/s; latencies stay
"""

from __future__ import annotations

import dataclasses

from .figures import Figure
from .hardware import Hardware
from .networks import Switch, Torus
from .protocols import Protocol, Protocols


def with_network(machine: Hardware, times: float) -> Hardware:
    """Returns a machine whose links, within a node or slice and between them, send `times` as many bytes/s."""
    network, inter_node = machine.network, machine.inter_node
    if isinstance(network, Torus):
        chip = network.chip and _scaled(network.chip, times)
        network = dataclasses.replace(network, link=_scaled(network.link, times), chip=chip)
    elif isinstance(network, Switch):
        protocols = network.protocols and _protocols(network.protocols, times)
        network = dataclasses.replace(network, egress=_scaled(network.egress, times), protocols=protocols)
    if inter_node is not None:
        inter_node = dataclasses.replace(inter_node, link=_scaled(inter_node.link, times))
    return dataclasses.replace(machine, network=network, inter_node=inter_node)


def _scaled(figure: Figure, times: float) -> Figure:
    return dataclasses.replace(figure, value=figure.value * times, source=f"{times:g} times: {figure.source}")


def _protocols(protocols: Protocols, times: float) -> Protocols:
    def faster(one: Protocol) -> Protocol:
        return dataclasses.replace(one, bandwidth=_scaled(one.bandwidth, times))

    return dataclasses.replace(
        protocols,
        rings={name: faster(one) for name, one in protocols.rings.items()},
        exchanges={name: faster(one) for name, one in protocols.exchanges.items()},
        in_switch=protocols.in_switch and faster(protocols.in_switch),
    )
