"""Several hosts on one machine: a network namespace for each node, all on one bridge in a namespace of its own.

Nothing of it touches the machine's own network, and all of it is gone when the namespaces are.
"""

import os
import shutil
import subprocess
import uuid


def why_not():
    """Why no rig can be built here; empty: it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool, package in (("ip", "iproute2"), ("nft", "nftables")):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (Debian package {package})"
    name = f"llf{uuid.uuid4().hex[:6]}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return "" if made.returncode == 0 else f"network namespaces are not allowed: {made.stderr.strip()}"


def _run(*words, check=True):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done


class Network:
    """`nodes` hosts with the addresses 10.83.0.1, 10.83.0.2, ..."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.name = f"llf{uuid.uuid4().hex[:6]}"
        self.hub = f"{self.name}h"
        _run("ip", "netns", "add", self.hub)
        try:
            _run("ip", "-n", self.hub, "link", "add", "bridge0", "type", "bridge")
            _run("ip", "-n", self.hub, "link", "set", "bridge0", "up")
            for node in range(nodes):
                self._add(node)
        except Exception:
            self.close()
            raise

    def _add(self, node):
        space = self.space(node)
        _run("ip", "netns", "add", space)
        _run("ip", "-n", self.hub, "link", "add", f"port{node}", "type", "veth", "peer", "name", "eth0", "netns", space)
        _run("ip", "-n", self.hub, "link", "set", f"port{node}", "master", "bridge0", "up")
        _run("ip", "-n", space, "address", "add", f"{self.address(node)}/24", "dev", "eth0")
        _run("ip", "-n", space, "link", "set", "eth0", "up")
        _run("ip", "-n", space, "link", "set", "lo", "up")

    def space(self, node):
        return f"{self.name}n{node}"

    @staticmethod
    def address(node):
        return f"10.83.0.{node + 1}"

    def inside(self, node):
        """Words before a command that is to run on `node`. The process stays the same: its pid is the command's.

        Not `ip netns exec`: it puts another /sys in place, without the control groups."""
        return ["nsenter", f"--net=/run/netns/{self.space(node)}", "--"]

    # ---- faults -------------------------------------------------------------------------------------------
    def link(self, node, up):
        """The cable of `node`, at the switch: its own interface does not notice."""
        _run("ip", "-n", self.hub, "link", "set", f"port{node}", "up" if up else "down")

    def drop(self, node, *rules, keep=()):
        """Drop what matches any of the nft `rules` on its way into `node`, unless one of `keep` matches first.

        heal() ends it. Two `!=` in one rule are merged into one comparison by nft 1.0.6: use `keep`."""
        _run(*self.inside(node), "nft", "add table inet faults")
        _run(*self.inside(node), "nft", "add chain inet faults in { type filter hook input priority 0 ; }")
        for rule in keep:
            _run(*self.inside(node), "nft", f"add rule inet faults in {rule} accept")
        for rule in rules:
            _run(*self.inside(node), "nft", f"add rule inet faults in {rule} drop")

    def heal(self):
        for node in range(self.nodes):
            _run(*self.inside(node), "nft", "delete table inet faults", check=False)
            _run("ip", "-n", self.hub, "link", "set", f"port{node}", "up", check=False)

    def close(self):
        for space in [self.hub, *(self.space(node) for node in range(self.nodes))]:
            _run("ip", "netns", "del", space, check=False)
