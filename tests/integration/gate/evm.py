"""Just enough EVM to sign x402 payments in a test: Keccak-256, secp256k1, EIP-712. Pure Python."""
import base64
import hashlib
import hmac
import json
import os
import time

P = 2**256 - 2**32 - 977
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
     0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8)
ROTATIONS = [1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44]
LANES = [10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1]
MASK = 2**64 - 1


def _constants():
    out, lfsr = [], 1
    for _ in range(24):
        value = 0
        for j in range(7):
            if lfsr & 1:
                value |= 1 << ((1 << j) - 1)
            lfsr = (lfsr << 1) ^ (0x171 if lfsr >> 7 else 0)
        out.append(value)
    return out


ROUNDS = _constants()


def keccak(data):
    rate = 136
    data = bytearray(data) + b"\x01"
    data += b"\0" * (-len(data) % rate)
    data[-1] |= 0x80
    s = [0] * 25
    for at in range(0, len(data), rate):
        for i in range(rate // 8):
            s[i] ^= int.from_bytes(data[at + 8 * i:at + 8 * i + 8], "little")
        for constant in ROUNDS:
            c = [s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20] for x in range(5)]
            for x in range(5):
                d = c[(x - 1) % 5] ^ ((c[(x + 1) % 5] << 1 | c[(x + 1) % 5] >> 63) & MASK)
                for y in range(0, 25, 5):
                    s[x + y] ^= d
            t = s[1]
            for lane, r in zip(LANES, ROTATIONS):
                s[lane], t = (t << r | t >> (64 - r)) & MASK, s[lane]
            for y in range(0, 25, 5):
                row = s[y:y + 5]
                for x in range(5):
                    s[x + y] = row[x] ^ (~row[(x + 1) % 5] & MASK & row[(x + 2) % 5])
            s[0] ^= constant
    return b"".join(v.to_bytes(8, "little") for v in s[:4])


def _add(a, b):
    if a is None:
        return b
    if b is None:
        return a
    if a[0] == b[0]:
        if (a[1] + b[1]) % P == 0:
            return None
        m = 3 * a[0] * a[0] * pow(2 * a[1], -1, P) % P
    else:
        m = (b[1] - a[1]) * pow(b[0] - a[0], -1, P) % P
    x = (m * m - a[0] - b[0]) % P
    return x, (m * (a[0] - x) - a[1]) % P


def _mul(k, point=G):
    out = None
    while k:
        if k & 1:
            out = _add(out, point)
        point = _add(point, point)
        k >>= 1
    return out


class Key:
    """A buyer."""

    def __init__(self, secret=None):
        self.secret = secret or int.from_bytes(os.urandom(32), "big") % N
        x, y = _mul(self.secret)
        self.address = "0x" + keccak(x.to_bytes(32, "big") + y.to_bytes(32, "big"))[12:].hex()

    def sign(self, digest, high_s=False):
        z = int.from_bytes(digest, "big")
        seed = self.secret.to_bytes(32, "big") + digest
        k = int.from_bytes(hmac.new(seed, b"nonce", hashlib.sha256).digest(), "big") % N
        x, y = _mul(k)
        r, v = x % N, y & 1
        s = pow(k, -1, N) * (z + r * self.secret) % N
        if (s > N // 2) != high_s:
            s, v = N - s, v ^ 1
        return r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([27 + v])


def _word(v):
    if isinstance(v, str) and v.startswith("0x") and len(v) == 42:
        return bytes(12) + bytes.fromhex(v[2:])
    if isinstance(v, str) and v.startswith("0x"):
        return bytes.fromhex(v[2:]).rjust(32, b"\0")
    return int(v).to_bytes(32, "big")


def domain(name, version, chain, contract):
    kind = b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
    return keccak(keccak(kind) + keccak(name.encode()) + keccak(version.encode()) + _word(chain) + _word(contract))


def transfer_digest(requirements, chain, a):
    kind = (b"TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,"
            b"uint256 validBefore,bytes32 nonce)")
    body = keccak(keccak(kind) + b"".join(_word(a[k]) for k in
                                          ("from", "to", "value", "validAfter", "validBefore", "nonce")))
    extra = requirements["extra"]
    return keccak(b"\x19\x01" + domain(extra["name"], extra["version"], chain, requirements["asset"]) + body)


SLUGS = {"base-sepolia": 84532, "base": 8453}


def chain_of(network):
    return SLUGS[network] if network in SLUGS else int(network.split(":")[1])


def authorization(key, requirements, **change):
    """A signed EIP-3009 `payload` for these requirements (of either version)."""
    now = int(time.time())
    a = {"from": key.address, "to": requirements["payTo"],
         "value": requirements.get("amount") or requirements["maxAmountRequired"], "validAfter": "0",
         "validBefore": str(now + requirements["maxTimeoutSeconds"]), "nonce": "0x" + os.urandom(32).hex()}
    high_s = change.pop("high_s", False)
    a.update(change)
    digest = transfer_digest(requirements, chain_of(requirements["network"]), a)
    return {"signature": "0x" + key.sign(digest, high_s).hex(), "authorization": a}


def b64(value):
    text = value if isinstance(value, (str, bytes)) else json.dumps(value, separators=(",", ":"))
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def unb64(text):
    return json.loads(base64.b64decode(text))
