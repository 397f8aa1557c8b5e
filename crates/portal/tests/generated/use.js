// Uses a client that was generated from the portal's description: logs in, starts a session and stops it. What the
// client sends, and by what name, is what the description says alone.
// node use.js CLIENT PORTAL NAME PASSWORD SESSION

const [, , folder, portal, name, password, session] = process.argv;
const api = require(`${folder}/sdk.gen.js`);
const { client } = require(`${folder}/client.gen.js`);

const cookies = {};
let csrf;
client.setConfig({
  baseUrl: portal,
  auth: (scheme) => (scheme.in === "cookie" ? cookies[scheme.name] : csrf),
});

/** The answer's status and body. */
async function told(what, asked) {
  const { data, error, response } = await asked;
  console.log(JSON.stringify([what, response.status]));
  for (const cookie of response.headers.getSetCookie()) {
    const [, key, value] = cookie.match(/^([^=]*)=([^;]*)/);
    cookies[key] = value;
  }
  return data ?? error;
}

(async () => {
  await told("me", api.me());
  const me = await told("logIn", api.logIn({ body: { name, password } }));
  csrf = me.csrf;
  const again = await told("me", api.me());
  console.log(JSON.stringify(["name", again.name]));
  await told("applications", api.applications());
  await told("start", api.start({ path: { id: session }, body: { application: "bare" } }));
  const all = await told("sessions", api.sessions());
  console.log(JSON.stringify(["session", all[0].id]));
  await told("operatorSessions", api.operatorSessions());
  await told("stop", api.stop({ path: { id: session } }));
  await told("logOut", api.logOut());
  await told("me", api.me());
})();
