"""Those who call on the control port and do not belong to the job: noise, half-open connections, agents of another
version or run, and recordings of real handshakes, whole and damaged.

    strangers.py ADDRESS PORT SEED SECONDS CONTROL_DIRECTORY

With the run's token, which lies in that directory, it makes a real handshake now and then, to have something to
replay; it then asks for another job, or sends what no agent sends. Ends with one line of JSON: how often each kind called, and what each was told.
Fails when somebody was let in who had no token.
"""

import hashlib
import hmac
import json
import pathlib
import random
import socket
import struct
import subprocess
import sys
import time

VERSION = 1  # of the protocol, as include/llmtrain/control/handshake.hpp says
MOST_KEPT = 100  # connections that are left half-open


def start(network, source, target, port, seed, seconds, control):
    """As a child on node `source`, against `target`; `control` is the job's control directory."""
    words = [sys.executable, __file__, network.address(target), port, seed, seconds, control]
    return subprocess.Popen([*network.inside(source), *map(str, words)], stdout=subprocess.PIPE, text=True)


def ended(child):
    """What a child has reported once it has ended; None before. It fails when it was let in."""
    if child.poll() is None:
        return None
    told = child.stdout.read()
    child.stdout.close()
    if child.returncode != 0:
        raise AssertionError(f"strangers have ended with {child.returncode}")
    return json.loads(told)


def frame(body):
    return struct.pack("<I", len(body)) + body


def hello(nonce, version=VERSION):
    return frame(b"HLLMT" + struct.pack("<H", version) + nonce)


def text(value):
    return struct.pack("<I", len(value)) + value


def join(rng, rdzv_id, claim):
    """A request to join the epoch of `claim` as an agent writes it, by one of another job."""
    identity = b"".join(text(part) for part in (rdzv_id, b"stranger", b"10.83.0.9", b"build", b"job", b"data"))
    return (struct.pack("<Bq", 1, claim["epoch"]) + identity + struct.pack("<BIBHIq", 1, 1, 0, 4000, 2, 1)
            + rng.randbytes(16) + text(claim["nonce"].encode()))


class Stranger:
    def __init__(self, address, port, seed, control):
        self.address, self.rng, self.control = (address, port), random.Random(seed), control
        self.token = (control / "token").read_bytes().strip()
        self.kept, self.recorded, self.calls, self.told = [], [], {}, {}
        self.kinds = [name for name in dir(self) if name.startswith("as_")]

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            name = self.rng.choice(self.kinds)
            try:
                s = socket.create_connection(self.address, 1)
            except OSError:
                continue
            self.kept.append(s)  # until the other side has had enough
            s.settimeout(0.3)
            self.calls[name] = self.calls.get(name, 0) + 1
            try:
                getattr(self, name)(s)
            except OSError:
                pass
            while len(self.kept) > MOST_KEPT:
                self.kept.pop(0).close()
            time.sleep(0.005)
        print(json.dumps({"calls": self.calls, "told": self.told}), flush=True)

    def answers(self, s, name, most=3):
        """Frames of the other side; what it says when it refuses is noted. Nobody without a token is let in."""
        found, data = [], b""
        try:
            while len(found) < most:
                while len(data) >= 4 and len(data) >= 4 + struct.unpack_from("<I", data)[0]:
                    size = struct.unpack_from("<I", data)[0]
                    found.append(data[4:4 + size])
                    data = data[4 + size:]
                if found and found[-1][:1] in (b"R", b"C", b"A"):
                    break
                more = s.recv(4096)
                if not more:
                    break
                data += more
        except OSError:
            pass
        for body in found:
            if body[:1] == b"R":
                self.told[name] = body[1:].decode(errors="replace")
        if not name.startswith("insider") and any(body[:1] == b"A" for body in found):
            sys.exit(f"{name} was let in")
        return found

    def challenged(self, s, name, nonce):
        s.sendall(hello(nonce))
        found = self.answers(s, name, 1)
        return found[0][3:35] if found and found[0][:1] == b"C" else None

    # ---- without a token ----------------------------------------------------------------------------------
    def as_noise(self, s):
        s.sendall(self.rng.randbytes(self.rng.randrange(1, 4096)))

    def as_oversize(self, s):
        s.sendall(struct.pack("<I", self.rng.choice([0, 257, 1 << 22, 0xFFFFFFF0])) + b"x" * 1000)

    def as_browser(self, s):
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")

    def as_silent(self, s):
        pass

    def as_slow(self, s):
        for byte in hello(self.rng.randbytes(32))[:self.rng.randrange(1, 12)]:
            s.sendall(bytes([byte]))

    def as_other_version(self, s):
        s.sendall(hello(self.rng.randbytes(32), self.rng.choice([0, 1, VERSION + 1, 65535])))
        self.answers(s, "other version")

    def as_half_a_hello(self, s):
        whole = hello(self.rng.randbytes(32))
        s.sendall(whole[:self.rng.randrange(1, len(whole))])
        s.close()

    def as_other_run(self, s):
        mine = self.rng.randbytes(32)
        theirs = self.challenged(s, "other run", mine)
        if theirs:
            s.sendall(frame(b"P" + hmac.digest(b"the token of another run", b"client" + mine + theirs, hashlib.sha256)))
            self.answers(s, "other run")

    def as_replay(self, s):
        if self.recorded:
            first, proof = self.rng.choice(self.recorded)
            s.sendall(first)
            self.answers(s, "replay", 1)
            s.sendall(proof)
            self.answers(s, "replay")

    def as_damaged_replay(self, s):
        if self.recorded:
            data = bytearray(b"".join(self.rng.choice(self.recorded)))
            for _ in range(self.rng.randrange(1, 4)):
                data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
            s.sendall(bytes(data[:self.rng.randrange(1, len(data) + 1)]))
            self.answers(s, "damaged replay")

    # ---- with the run's token -----------------------------------------------------------------------------
    def let_in(self, s):
        mine = self.rng.randbytes(32)
        theirs = self.challenged(s, "insider", mine)
        if not theirs:
            return False
        proof = frame(b"P" + hmac.digest(self.token, b"client" + mine + theirs, hashlib.sha256))
        s.sendall(proof)
        if [body[:1] for body in self.answers(s, "insider", 1)] != [b"A"]:
            return False
        self.recorded = [*self.recorded[-20:], (hello(mine), proof)]
        return True

    def claim(self):
        epochs = [p for p in self.control.glob("epoch-*") if p.name.split("-")[1].isdigit()]
        return json.loads(max(epochs, key=lambda p: int(p.name.split("-")[1])).read_text())

    def as_insider_of_another_job(self, s):
        if self.let_in(s):
            s.sendall(frame(join(self.rng, b"another job", self.claim())))
            try:
                self.told["insider of another job"] = s.recv(4096)[4:].decode(errors="replace")
            except OSError:
                pass

    def as_insider_with_damage(self, s):
        if self.let_in(s):
            data = bytearray(join(self.rng, b"another job", self.claim()))
            for _ in range(self.rng.randrange(1, 6)):
                data[self.rng.randrange(len(data))] = self.rng.randrange(256)
            s.sendall(frame(bytes(data[:self.rng.randrange(1, len(data) + 1)])))

    def as_insider_with_much(self, s):
        if self.let_in(s):
            s.sendall(struct.pack("<IBq", (4 << 20) + self.rng.randrange(-64, 64), 5, 1) + b"x" * 65536)


def main():
    address, port, seed, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    Stranger(address, port, seed, pathlib.Path(sys.argv[5])).run(seconds)


if __name__ == "__main__":
    main()
