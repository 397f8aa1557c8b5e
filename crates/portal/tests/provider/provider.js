// An OpenID Connect provider for the tests: the library oidc-provider with its own log-in page, which accepts any name
// and password. It prints its address, and ends when standard input does.
//
// node provider.js CALLBACK SECRET: redirect URL and secret of its only client, `portal`.

import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const [callback, secret] = process.argv.slice(2);

// Groups of each user: all are players, except one.
const groups = (name) => (name === "stranger" ? [] : name === "olga" ? ["players", "operators"] : ["players"]);

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "portal",
        client_secret: secret,
        redirect_uris: [callback],
        post_logout_redirect_uris: [new URL("/", callback).href],
      },
    ],
    claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
    findAccount: (_, name) => ({
      accountId: name,
      claims: () => ({ sub: name, preferred_username: name, groups: groups(name) }),
    }),
    features: { devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true } },
    pkce: { required: () => true },
  });
  server.on("request", provider.callback());
  console.log(issuer);
});

process.stdin.on("end", () => process.exit());
process.stdin.resume();
