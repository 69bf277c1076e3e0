"""The built-in data source and the order of samples, written anew from docs/DATA.md in plain Python."""

MASK64 = (1 << 64) - 1
MASK32 = (1 << 32) - 1


def philox4x32(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK32, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK32]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return c


def philox(key, index, substream):
    return philox4x32((index & MASK32, index >> 32, substream & MASK32, substream >> 32), (key & MASK32, key >> 32))


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def combine64(a, b):
    return mix64(mix64(a) ^ b)


def document(seed, vocab_size, number, valid=False):
    states = min(vocab_size - 1, 256)
    stride = (vocab_size - 1) // states
    factor = next(p for p in (5, 7, 11, 13) if states % p)
    stream = (1 << 32 if valid else 0) + number
    length = 16 + philox(seed, 0, stream)[2] % 256
    state, tokens = 0, []
    for position in range(length - 1):
        random = philox(seed, position, stream)
        state = random[1] % states if position == 0 or random[0] < 1 << 29 else (factor * state + 3) % states
        tokens.append(state * stride)
    return tokens + [vocab_size - 1]


def permuted(n, seed, epoch, index):
    """Position `index` of the permutation of [0, n)."""
    if n == 1:
        return 0
    bits = max(2, (n - 1).bit_length())
    base = combine64(seed, epoch)
    keys = [combine64(base, round_) for round_ in range(8)]
    value = index
    while True:
        left_bits = bits // 2
        right_bits = bits - left_bits
        left, right = value >> right_bits, value & ((1 << right_bits) - 1)
        for key in keys:
            left, right = right, (left ^ mix64(right ^ key)) & ((1 << left_bits) - 1)
            left_bits, right_bits = right_bits, left_bits
        value = left << right_bits | right
        if value < n:
            return value


class SyntheticData:
    def __init__(self, seed, vocab_size, seq_length, valid=False):
        self.seed, self.seq_length, self.valid = seed, seq_length, valid
        self.tokens = [t for d in range(512 if valid else 8192) for t in document(seed, vocab_size, d, valid)]
        self.num_samples = (len(self.tokens) - 1) // seq_length

    def sample(self, index):
        """The seq_length + 1 tokens of global sample `index`."""
        epoch, position = divmod(index, self.num_samples)
        number = position if self.valid else permuted(self.num_samples, combine64(self.seed, 0), epoch, position)
        return self.tokens[number * self.seq_length : (number + 1) * self.seq_length + 1]
