"""What published Python libraries say of our signatures. usage: peers.py sign|recover|jwt|jwt-model < JSON."""
import json
import os
import random
import sys

TYPES = {"TransferWithAuthorization": [
    {"name": "from", "type": "address"}, {"name": "to", "type": "address"},
    {"name": "value", "type": "uint256"}, {"name": "validAfter", "type": "uint256"},
    {"name": "validBefore", "type": "uint256"}, {"name": "nonce", "type": "bytes32"}]}


def typed(terms, a):
    chain = int(terms["network"].split(":")[1])
    domain = {"name": terms["extra"]["name"], "version": terms["extra"]["version"], "chainId": chain,
              "verifyingContract": terms["asset"]}
    message = {k: int(a[k]) if k in ("value", "validAfter", "validBefore") else a[k] for k in a}
    message["nonce"] = bytes.fromhex(a["nonce"][2:])
    return domain, TYPES, message


def sign(seed, count, before):
    """Payments with random domains and members, signed by eth_account."""
    from eth_account import Account
    r = random.Random(seed)
    out = []
    for _ in range(count):
        account = Account.from_key(r.randbytes(32))
        terms = {"scheme": "exact", "network": "eip155:%d" % r.choice([1, 8453, 84532, 2**53 - 1]),
                 "amount": str(r.choice([1, 10000, 2**64, 2**128 + 7])), "asset": "0x" + r.randbytes(20).hex(),
                 "payTo": "0x" + r.randbytes(20).hex(), "maxTimeoutSeconds": 60,
                 "extra": {"name": r.choice(["USDC", "USD Coin", "USD₮0", "a" * 60]),
                           "version": r.choice(["1", "2", ""]) or "2"}}
        a = {"from": account.address, "to": terms["payTo"], "value": terms["amount"],
             "validAfter": str(r.choice([0, 1])), "validBefore": str(before),
             "nonce": "0x" + r.randbytes(32).hex()}
        signed = Account.sign_typed_data(account.key, *typed(terms, a))
        out.append({"terms": terms, "payment": {"x402Version": 2, "accepted": terms, "payload": {
            "signature": "0x" + signed.signature.hex().removeprefix("0x"), "authorization": a}}})
    return out


def recover(payment):
    from eth_account import Account
    from eth_account.messages import encode_typed_data
    message = encode_typed_data(*typed(payment["accepted"], payment["payload"]["authorization"]))
    return Account.recover_message(message, signature=payment["payload"]["signature"])


def check_jwt(token, public):
    import jwt
    claims = jwt.decode(token, public, algorithms=["EdDSA", "ES256"], options={"verify_aud": False})
    return {"header": jwt.get_unverified_header(token), "claims": claims}


def model_jwt(secret, host, path):
    """The same call's token as CDP's own library makes it."""
    import jwt
    from cdp.auth.utils.jwt import JwtOptions, generate_jwt
    token = generate_jwt(JwtOptions(api_key_id="organizations/1/k", api_key_secret=secret,
                                    request_method="POST", request_host=host, request_path=path))
    return {"header": jwt.get_unverified_header(token),
            "claims": jwt.decode(token, options={"verify_signature": False})}


given = json.load(sys.stdin)
print(json.dumps({"sign": sign, "recover": recover, "jwt": check_jwt, "jwt-model": model_jwt}
                 [sys.argv[1]](**given)))
