"""Buys with the official Python client, unmodified. usage: buy.py URL; prints one JSON line."""
import asyncio
import base64
import json
import os
import sys

from eth_account import Account
from x402 import x402Client
from x402.http.clients.httpx import wrapHttpxWithPayment
from x402.mechanisms.evm import EthAccountSigner
from x402.mechanisms.evm.exact.register import register_exact_evm_client


async def main():
    client = x402Client()
    account = Account.from_key(os.environ["X402_KEY"])
    register_exact_evm_client(client, EthAccountSigner(account))
    async with wrapHttpxWithPayment(client) as http:
        answer = await http.get(sys.argv[1])
        receipt = answer.headers.get("payment-response") or answer.headers.get("x-payment-response")
        print(json.dumps({"status": answer.status_code, "body": answer.text, "payer": account.address,
                          "receipt": json.loads(base64.b64decode(receipt)) if receipt else None}))


asyncio.run(main())
