// Pays for a link with each version of the protocol, with a third-party client and signatures of a real wallet.
import assert from "node:assert/strict";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { verifyTypedData } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

const base = process.env.DL_BASE_URL;
const account = privateKeyToAccount(generatePrivateKey());
const usdc = {
  name: "USDC", version: "2", chainId: 84532, verifyingContract: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
};
const transfer = ["from:address", "to:address", "value:uint256", "validAfter:uint256", "validBefore:uint256", "nonce:bytes32"]
  .map((field) => ({ name: field.split(":")[0], type: field.split(":")[1] }));

// A client from before version 2: the challenge is only in the body.
async function bodyOnly(request, options) {
  const answer = await fetch(request, options);
  if (answer.status !== 402) return answer;
  const headers = new Headers(answer.headers);
  headers.delete("payment-required");
  return new Response(await answer.text(), { status: 402, headers });
}

const versions = [
  { version: 2, network: "eip155:84532", client: new ExactEvmScheme(account), fetch, header: "payment-signature", receipt: "payment-response" },
  { version: 1, network: "base-sepolia", client: new ExactEvmSchemeV1(account), fetch: bodyOnly, header: "x-payment", receipt: "x-payment-response" },
];
for (const { version, network, client, fetch, header, receipt } of versions) {
  let sent;
  const noting = (request, options) => {
    sent = request.headers.get(header);
    return fetch(request, options);
  };
  const paying = wrapFetchWithPaymentFromConfig(noting, { schemes: [{ network, client, x402Version: version }] });
  const link = { web_url: "https://example.com/p/42", agent_context: { action: "purchase" } };
  const made = await paying(`${base}/v1/links`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(link),
  });
  const text = await made.text();
  assert.equal(made.status, 201, `version ${version}: ${text}`);
  assert.ok(JSON.parse(text).url);
  const settled = decodePaymentResponseHeader(made.headers.get(receipt));
  assert.equal(settled.success, true);
  assert.equal(settled.payer.toLowerCase(), account.address.toLowerCase());
  // The token's contract would accept it: it is signed for the domain that the challenge names.
  const { payload } = JSON.parse(Buffer.from(sent, "base64"));
  const message = payload.authorization;
  assert.equal(message.to.toLowerCase(), process.env.PAY_TO.toLowerCase());
  assert.equal(message.value, process.env.PRICE);
  const types = { TransferWithAuthorization: transfer };
  const signed = { address: account.address, domain: usdc, types, primaryType: "TransferWithAuthorization" };
  assert.ok(await verifyTypedData({ ...signed, message, signature: payload.signature }));
  console.log(`@x402/fetch paid for ${JSON.parse(text).url} by version ${version}`);
}
