// Uses a client that was generated from the portal's OpenAPI description: logs in, starts a session and stops it. All
// requests and names come from the description.
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

/** Prints a response's status and returns its body. */
async function report(operation, pending) {
  const { data, error, response } = await pending;
  console.log(JSON.stringify([operation, response.status]));
  for (const cookie of response.headers.getSetCookie()) {
    const [, key, value] = cookie.match(/^([^=]*)=([^;]*)/);
    cookies[key] = value;
  }
  return data ?? error;
}

(async () => {
  await report("me", api.me());
  const me = await report("logIn", api.logIn({ body: { name, password } }));
  csrf = me.csrf;
  const again = await report("me", api.me());
  console.log(JSON.stringify(["name", again.name]));
  await report("applications", api.applications());
  await report("start", api.start({ path: { id: session }, body: { application: "bare" } }));
  const all = await report("sessions", api.sessions());
  console.log(JSON.stringify(["session", all[0].id]));
  await report("operatorSessions", api.operatorSessions());
  await report("stop", api.stop({ path: { id: session } }));
  await report("logOut", api.logOut());
  await report("me", api.me());
})();
