"""Independent programs of docs/DATA.md's recipes; prints the golden values that the tests hold."""

M64 = 2**64 - 1


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def combine64(a, b):
    return mix64(mix64(a) ^ b)


def permute(n, seed, epoch, i):
    if n == 1:
        return 0
    bits = max(2, (n - 1).bit_length())
    base = combine64(seed, epoch)
    while True:
        l, r = bits // 2, bits - bits // 2
        left, right = i >> r, i & (2**r - 1)
        for k in range(8):
            left, right = right, (left ^ mix64(right ^ combine64(base, k))) & (2**l - 1)
            l, r = r, l
        i = left << r | right
        if i < n:
            return i


def philox(key, index, substream):
    c = [index & 0xFFFFFFFF, index >> 32, substream & 0xFFFFFFFF, substream >> 32]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def synthetic(seed, vocab_size, valid):
    states = min(vocab_size - 1, 256)
    stride = (vocab_size - 1) // states
    factor = next(p for p in (5, 7, 11, 13) if states % p)
    for document in range(512 if valid else 8192):
        stream = (2**32 if valid else 0) + document
        length = 16 + philox(seed, 0, stream)[2] % 256
        state = 0
        for position in range(length - 1):
            r = philox(seed, position, stream)
            state = r[1] % states if position == 0 or r[0] < 2**29 else (factor * state + 3) % states
            yield state * stride
        yield vocab_size - 1


if __name__ == "__main__":
    print("permutation 10 1234 0:", [permute(10, 1234, 0, i) for i in range(10)])
    print("permutation 10 1234 1:", [permute(10, 1234, 1, i) for i in range(10)])
    print("permutation 2^40 7 2 at 123456789:", permute(2**40, 7, 2, 123456789))
    order = [permute(8, combine64(1234, 0), epoch, i) for epoch in range(3) for i in range(8)][:20]
    print("8 samples, 2.5 epochs, seed 1234:", order)
    for vocab, valid in ((512, False), (512, True), (2, False), (101, False), (50257, False)):
        tokens = list(synthetic(1234, vocab, valid))
        checksum = 0
        for token in tokens:
            checksum = (checksum * 31 + token) % 2**61
        print("synthetic", vocab, valid, len(tokens), tokens[:20], checksum)
