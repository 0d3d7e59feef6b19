// The official facilitator logic over a chain that is none: signatures, domains, amounts, windows and
// nonces are checked by the official code, only reading and writing the chain is made up here.
import http from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
const require = createRequire(process.env.X402_NPM + '/package.json');
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const pick = (m) => m.default && Object.keys(m).length <= 2 ? m.default : m;
const viem = pick(await load('viem'));
const { x402Facilitator } = pick(await load('@x402/core/facilitator'));
const { ExactEvmScheme } = pick(await load('@x402/evm/exact/facilitator'));
const { ExactEvmSchemeV1 } = pick(await load('@x402/evm/exact/v1/facilitator'));

const contracts = new Set([process.env.X402_ASSET, '0x000000000022D473030F116dDEE9F6B43aC78BA3',
  '0x402085c248EeA27D92E8b30b2C58ed07f9E20001', '0xcA11bde05977b3631167028862bE2a173976CA11']
  .map((a) => a.toLowerCase()));
const used = new Set(), receipts = new Map();
let counts = { verify: 0, settle: 0, transfers: 0 };
const nonceOf = (args) => String(args[5] ?? args[0]?.nonce ?? JSON.stringify(args, (_, v) => typeof v === 'bigint' ? String(v) : v)).toLowerCase();
const big = 10n ** 30n;

const signer = {
  getAddresses: () => ['0x2222222222222222222222222222222222222222'],
  getCode: async ({ address }) => contracts.has(address.toLowerCase()) ? '0x6000' : '0x',
  readContract: async ({ functionName, args }) => {
    if (functionName === 'balanceOf' || functionName === 'allowance') return big;
    if (functionName === 'name') return 'USDC';
    if (functionName === 'version') return '2';
    if (functionName === 'authorizationState') return used.has(String(args[1]).toLowerCase());
    if (functionName === 'transferWithAuthorization' && used.has(nonceOf(args)))
      throw new Error('FiatTokenV2: authorization is used or canceled');
    if (functionName === 'PERMIT2') return '0x000000000022D473030F116dDEE9F6B43aC78BA3';
    return undefined;
  },
  verifyTypedData: (p) => viem.verifyTypedData(p),
  writeContract: async ({ functionName, args, address }) => {
    if (used.has(nonceOf(args))) throw new Error('authorization is used or canceled');
    used.add(nonceOf(args));
    counts.transfers++;
    const hash = viem.keccak256(viem.toHex(nonceOf(args)));
    const logs = functionName === 'transferWithAuthorization' ? [{
      address, topics: viem.encodeEventTopics({
        abi: viem.parseAbi(['event Transfer(address indexed from, address indexed to, uint256 value)']),
        eventName: 'Transfer', args: { from: args[0], to: args[1] } }),
      data: viem.encodeAbiParameters([{ type: 'uint256' }], [BigInt(args[2])]) }] : undefined;
    receipts.set(hash, { status: 'success', logs });
    return hash;
  },
  waitForTransactionReceipt: async ({ hash }) => receipts.get(hash) ?? { status: 'reverted' },
  sendTransaction: async () => { throw new Error('no plain transactions here'); },
};

const facilitator = new x402Facilitator();
facilitator.register('eip155:84532', new ExactEvmScheme(signer));
facilitator.registerV1('base-sepolia', new ExactEvmSchemeV1(signer));

http.createServer((req, res) => {
  let text = '';
  req.on('data', (d) => { text += d; });
  req.on('end', async () => {
    const answer = (status, body) => {
      res.writeHead(status, { 'content-type': 'application/json' });
      res.end(JSON.stringify(body));
    };
    try {
      if (req.url === '/stats') return answer(200, counts);
      if (req.url === '/supported') return answer(200, facilitator.getSupported());
      const { paymentPayload, paymentRequirements } = JSON.parse(text);
      const operation = req.url.slice(1);
      counts[operation]++;
      answer(200, await facilitator[operation](paymentPayload, paymentRequirements));
    } catch (e) {
      console.error(e);
      answer(500, { error: 'internal' });
    }
  });
}).listen(Number(process.argv[2]), '127.0.0.1', () => console.log('Facilitator listening'));
