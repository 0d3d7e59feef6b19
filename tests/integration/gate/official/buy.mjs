// Buys with the official clients, unmodified. usage: node buy.mjs CLIENT URL; prints one JSON line.
// CLIENT: v2 (@x402/fetch), v1 (x402-fetch), naive (v2 in a loop that pays again on any failure).
// Packages are resolved from the folder named by X402_NPM.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
const require = createRequire(process.env.X402_NPM + '/package.json');
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const pick = (m) => m.default && Object.keys(m).length <= 2 ? m.default : m;
const { privateKeyToAccount } = pick(await load('viem/accounts'));
const account = privateKeyToAccount(process.env.X402_KEY);
const [, , client, url] = process.argv;

async function buyerV2() {
  const { wrapFetchWithPayment, x402Client } = pick(await load('@x402/fetch'));
  const { ExactEvmScheme } = pick(await load('@x402/evm/exact/client'));
  const { UptoEvmScheme } = pick(await load('@x402/evm/upto/client'));
  const c = new x402Client();
  c.register('eip155:*', new ExactEvmScheme(account));
  c.register('eip155:*', new UptoEvmScheme(account));
  return wrapFetchWithPayment(fetch, c);
}

async function buyerV1() {
  const { wrapFetchWithPayment } = pick(await load('x402-fetch'));
  return wrapFetchWithPayment(fetch, account);
}

async function once(buy) {
  const r = await buy(url);
  const receipt = r.headers.get('payment-response') || r.headers.get('x-payment-response');
  return { status: r.status, body: await r.text(),
    receipt: receipt && JSON.parse(Buffer.from(receipt, 'base64').toString()) };
}

async function naive(buy) {
  let tries = 0, last;
  while (++tries <= 8) {
    try {
      last = await once(buy);
      if (last.status === 200) break;
    } catch (e) {
      last = { status: 0, body: String(e) };
    }
    await new Promise((done) => setTimeout(done, 300));
  }
  return { ...last, tries };
}

try {
  const result = client === 'v1' ? await once(await buyerV1())
    : client === 'v2' ? await once(await buyerV2()) : await naive(await buyerV2());
  console.log(JSON.stringify({ payer: account.address, ...result }));
} catch (e) {
  console.log(JSON.stringify({ status: 0, body: String(e) }));
}
