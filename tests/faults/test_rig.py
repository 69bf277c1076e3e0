"""The rig itself: hosts that reach each other until a fault is made, and a table that renders."""

import subprocess
import sys
import unittest

from tests.faults import render
from tests.faults.network import Network, why_not
from tests.support import main

SERVER = "import socket; s = socket.create_server(('0.0.0.0', {port})); print('up', flush=True)\nwhile True: s.accept()"
CLIENT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 0.5)"
PORTS = (4001, 4002)


class Rig(unittest.TestCase):
    def setUp(self):
        reason = why_not()
        if reason:
            self.skipTest(reason)
        self.network = Network(2)
        self.addCleanup(self.network.close)
        for port in PORTS:
            server = subprocess.Popen([*self.network.inside(0), sys.executable, "-c", SERVER.format(port=port)],
                                      stdout=subprocess.PIPE)
            self.addCleanup(server.stdout.close)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            server.stdout.readline()

    def reached(self, port=PORTS[0]):
        words = [*self.network.inside(1), sys.executable, "-c", CLIENT, self.network.address(0), str(port)]
        return subprocess.run(words, capture_output=True).returncode == 0

    def test_a_link_is_cut_and_healed(self):
        self.assertTrue(self.reached())
        self.network.link(1, up=False)
        self.assertFalse(self.reached())
        self.network.heal()
        self.assertTrue(self.reached())

    def test_one_port_is_cut_and_the_other_is_not(self):
        self.network.drop(0, f"tcp dport {PORTS[0]}")
        self.assertFalse(self.reached(PORTS[0]))
        self.assertTrue(self.reached(PORTS[1]))
        self.network.heal()
        self.assertTrue(self.reached(PORTS[0]))

    def test_all_ports_but_one_are_cut(self):
        self.network.drop(0, f"ip saddr {self.network.address(1)}", keep=[f"tcp dport {PORTS[0]}"])
        self.assertTrue(self.reached(PORTS[0]))
        self.assertFalse(self.reached(PORTS[1]))

    def test_nothing_is_left(self):
        self.network.close()
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        self.assertNotIn(self.network.name, listed)


class Table(unittest.TestCase):
    def test_medians_and_maxima_of_each_case(self):
        rows = [{"case": "P1 kill -9 of a worker", "detect_ms": d, "recover_ms": None, "lost_steps": 2, "verdict": "signal"}
                for d in (10, 30, 20)]
        text = render.table(rows)
        self.assertIn("| P1 kill -9 of a worker | 3 | 20 / 30 | - | 2 | signal |", text)
        self.assertIn("3.3 s", text)  # what torchrun does with it


if __name__ == "__main__":
    main.run()
