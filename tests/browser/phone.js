// A phone of one user. It registers, accepts every call, executes the commands of the test, and reports events.

import { Inviter, Registerer, SessionState, UserAgent } from "/sip.js/index.js";

// Reports are sent one after another, so that they arrive in order.
let saying = Promise.resolve();
function say(text) {
    saying = saying.then(() => fetch("/said", { method: "POST", body: text }));
}

window.addEventListener("error", (event) => say(`error: ${event.message}`));
window.addEventListener("unhandledrejection", (event) => say(`error: ${event.reason}`));

let session;
function follow(next) {
    session = next;
    session.stateChange.addListener((state) => {
        if (state === SessionState.Established || state === SessionState.Terminated) {
            say(`call ${state}`);
        }
    });
}

const settings = await (await fetch("/settings")).json();
const agent = new UserAgent({
    uri: UserAgent.makeURI(`sip:${settings.user}@example.com`),
    transportOptions: { server: settings.server },
    authorizationUsername: settings.user,
    authorizationPassword: settings.password,
    // No STUN or TURN server, so the browser uses only its own addresses.
    sessionDescriptionHandlerFactoryOptions: { iceGatheringTimeout: 100, peerConnectionConfiguration: { iceServers: [] } },
    logBuiltinEnabled: false,
    logConnector: (level, category, label, content) => {
        if (level === "error" || level === "warn") {
            say(`${level}: ${content}`);
        }
    },
    delegate: {
        onInvite(invitation) {
            say(`called by ${invitation.remoteIdentity.uri}`);
            follow(invitation);
            invitation.accept();
        },
        onConnect: () => say("connected"),
        onDisconnect: (error) => say(`disconnected${error ? `: ${error.message}` : ""}`),
    },
});

const orders = {
    call(uri) {
        follow(new Inviter(agent, UserAgent.makeURI(uri)));
        return session.invite({ requestDelegate: { onReject: (it) => say(`refused: ${it.message.statusCode}`) } });
    },
    hang: () => session.bye(),
};

await agent.start();
await new Registerer(agent).register({
    requestDelegate: {
        onAccept: () => say("registered"),
        onReject: (it) => say(`not registered: ${it.message.statusCode}`),
    },
});

for (;;) {
    const [what, whom] = (await (await fetch("/order")).text()).split(" ");
    if (what) {
        await orders[what](whom);
    }
}
