"""Several hosts on one machine: a network namespace for each node, all on one bridge in a namespace of its own.

Nothing of it touches the machine's own network, and all of it is gone when the namespaces are.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import uuid


def why_not():
    """Why no rig can be built here; empty: it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables")):
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
    """`nodes` hosts with the addresses 10.83.0.1 and fd83::1, 10.83.0.2 and fd83::2, ..."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.proxies = []
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
        _run("ip", "-n", space, "address", "add", f"{self.address6(node)}/64", "dev", "eth0", "nodad", check=False)
        _run("ip", "-n", space, "link", "set", "eth0", "up")
        _run("ip", "-n", space, "link", "set", "lo", "up")

    def space(self, node):
        return f"{self.name}n{node}"

    @staticmethod
    def address(node):
        return f"10.83.0.{node + 1}"

    @staticmethod
    def address6(node):
        """Where the kernel has IPv6."""
        return f"fd83::{node + 1:x}"

    def hosts_file(self, node, hosts):
        """What `node` finds in its hosts file: {name: [addresses]}. To be called before anything runs there."""
        folder = pathlib.Path("/etc/netns") / self.space(node)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{address} {name}" for name, addresses in hosts.items() for address in addresses]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))

    def inside(self, node):
        """Words before a command that is to run on `node`. The process stays the same: its pid is the command's.

        Not `ip netns exec`: it puts another /sys in place, without the control groups."""
        words = ["nsenter", f"--net=/run/netns/{self.space(node)}", "--"]
        hosts = pathlib.Path("/etc/netns") / self.space(node) / "hosts"
        if hosts.exists():
            words += ["unshare", "--mount", "sh", "-c", f"mount --bind {hosts} /etc/hosts && exec \"$@\"", "sh"]
        return words

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

    def vanish(self, node):
        """The host is gone from one moment to the next: nothing that runs on it can say so any more.

        Its processes are the caller's to kill, before replace()."""
        _run("ip", "-n", self.hub, "link", "del", f"port{node}")

    def replace(self, node):
        """Another host with the address of one that vanished."""
        _run("ip", "netns", "del", self.space(node))
        self._add(node)

    def delay(self, node, port, least_ms, most_ms):
        """Everything that comes to `port` of `node`, and the answers, takes between `least_ms` and `most_ms`."""
        words = [*self.inside(node), sys.executable, pathlib.Path(__file__).parent / "proxy.py", port, least_ms, most_ms]
        proxy = subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True)
        self.proxies.append(proxy)
        own = int(proxy.stdout.readline())
        _run(*self.inside(node), "nft", "add table inet delays")
        _run(*self.inside(node), "nft", "add chain inet delays in { type nat hook prerouting priority -100 ; }")
        _run(*self.inside(node), "nft", f"add rule inet delays in tcp dport {port} redirect to :{own}")
        return proxy

    def limit(self, node, rate):
        """What `node` sends passes at `rate` (as tc writes it) and no faster."""
        _run("tc", "-n", self.space(node), "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "32k",
             "latency", "400ms")

    def unlimit(self, node):
        _run("tc", "-n", self.space(node), "qdisc", "del", "dev", "eth0", "root")

    def heal(self):
        for node in range(self.nodes):
            _run(*self.inside(node), "nft", "delete table inet faults", check=False)
            _run("ip", "-n", self.hub, "link", "set", f"port{node}", "up", check=False)

    def close(self):
        for proxy in self.proxies:
            proxy.kill()
            proxy.wait()
            proxy.stdout.close()
        for node in range(self.nodes):
            shutil.rmtree(pathlib.Path("/etc/netns") / self.space(node), ignore_errors=True)
        for space in [self.hub, *(self.space(node) for node in range(self.nodes))]:
            _run("ip", "netns", "del", space, check=False)
