//! The description of the admin interface for programs, `docs/openapi.json`. The JSON schemas come from the types of
//! the answers, the rest from the table here. Tests compare it with a running server.

use super::tests::{Site, keys, request};
use crate::figures::{
    CapacityView, ConnectionsView, ContactsView, EndedCallsView, ExplanationView, FailuresView, HealthView,
    HistoryView, MembersView, OpenCallsView, ProxyView, RegistrarView, Reloaded, Restarting, ScaleView,
    ScalesView, Session, Sessions, Stopping,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;

struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
    /// Meaning of the request's body; `None` without a body.
    body: Option<&'static str>,
    answer: Answer,
    /// Another status than 200 that has the same JSON.
    same_with: Option<u16>,
    /// Statuses of failures with their meaning.
    failures: &'static [(u16, &'static str)],
    /// Whether the operation requires the token, if the server has one.
    needs_token: bool,
}

struct Parameter {
    name: &'static str,
    is_required: bool,
    meaning: &'static str,
    values: &'static [&'static str],
}

enum Answer {
    Text(&'static str),
    Json(&'static [fn(&mut SchemaGenerator) -> Schema]),
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const MEMBER: Parameter = Parameter {
    name: "member",
    is_required: true,
    meaning: "Address of the member, or its name in the configuration. A name can have several addresses. The \
        default port \
              is 5060.",
    values: &[],
};

const POOL: Parameter =
    Parameter { name: "pool", is_required: true, meaning: "Name of the pool.", values: &[] };

/// A parameter that is false by default.
const fn switch(name: &'static str) -> Parameter {
    Parameter { name, is_required: false, meaning: "", values: &["true", "false"] }
}

/// Values that most operations share.
const GET: Operation = Operation {
    method: "get",
    path: "",
    summary: "",
    parameters: &[],
    body: None,
    answer: Answer::Json(&[]),
    same_with: None,
    failures: &[],
    needs_token: true,
};

const POST: Operation = Operation { method: "post", ..GET };
const DELETE: Operation = Operation { method: "delete", ..GET };

const USER: Parameter =
    Parameter { name: "user", is_required: true, meaning: "The user, as USER@DOMAIN.", values: &[] };

const NO_USER: (u16, &str) = (404, "The domain of the user is not served here, or there is no registrar.");
const NO_STORE: (u16, &str) =
    (503, "The store does not answer, or the server is about to exit after its last call.");

const NO_POOL: (u16, &str) = (404, "No such pool or member.");

const WEIGHT: Parameter = Parameter {
    name: "weight",
    is_required: true,
    meaning: "Capacity relative to the other members.",
    values: &[],
};

const NO_MEMBER: (u16, &str) = (404, "No such member. The text lists the members.");

const OPERATIONS: [Operation; 28] = [
    Operation {
        path: "/healthz",
        summary: "Whether the process runs, for a liveness probe.",
        answer: Answer::Text("text/plain; charset=utf-8"),
        needs_token: false,
        ..GET
    },
    Operation {
        path: "/readyz",
        summary: "Whether new calls are taken, for a readiness probe.",
        answer: Answer::Text("text/plain; charset=utf-8"),
        failures: &[(503, "No new calls are taken.")],
        needs_token: false,
        ..GET
    },
    Operation {
        path: "/api/health",
        summary: "Whether new calls are taken.",
        answer: Answer::Json(&[of::<HealthView>]),
        same_with: Some(503),
        failures: &[(
            503,
            "No new calls are taken (the same JSON), or the server has ended (a line of text).",
        )],
        ..GET
    },
    Operation {
        path: "/api/members",
        summary: "Every member, and former members until they are forgotten.",
        parameters: &[
            Parameter {
                meaning: "Adds the age of each member's oldest call. This walks the session table.",
                ..switch("oldest")
            },
            Parameter {
                meaning: "Leaves out percentiles and occupancy, which take time to collect from many members.",
                ..switch("brief")
            },
            Parameter { meaning: "Shows only members whose state is not `up`.", ..switch("problems") },
            Parameter { is_required: false, meaning: "Shows only members of this pool.", ..POOL },
            Parameter {
                name: "search",
                is_required: false,
                meaning: "Shows only members with this text in their name, address or state.",
                values: &[],
            },
        ],
        answer: Answer::Json(&[of::<MembersView>]),
        failures: &[NO_POOL],
        ..GET
    },
    Operation {
        path: "/api/history",
        summary: "Curves of the last ten minutes, with a point every two seconds.",
        answer: Answer::Json(&[of::<HistoryView>]),
        ..GET
    },
    Operation {
        path: "/api/sessions",
        summary: "Numbers of sessions, or one session.",
        parameters: &[Parameter {
            name: "call_id",
            is_required: false,
            meaning: "Shows only the session of this call.",
            values: &[],
        }],
        answer: Answer::Json(&[of::<Sessions>, of::<Session>]),
        failures: &[(404, "No session has this Call-ID.")],
        ..GET
    },
    Operation {
        path: "/api/calls",
        summary: "The oldest calls in progress of pools with dialogs.",
        parameters: &[
            Parameter {
                name: "text",
                is_required: false,
                meaning: "Part of the Call-ID, of the URIs of From or To, or of the Request-URI.",
                values: &[],
            },
            Parameter { name: "pool", is_required: false, meaning: "Name of the pool.", values: &[] },
            Parameter {
                name: "member",
                is_required: false,
                meaning: "Server that answered, as IP:PORT.",
                values: &[],
            },
            Parameter {
                name: "limit",
                is_required: false,
                meaning: "Maximum number of calls; by default 100.",
                values: &[],
            },
        ],
        answer: Answer::Json(&[of::<OpenCallsView>]),
        failures: &[(404, "The process keeps no dialogs.")],
        ..GET
    },
    Operation {
        path: "/api/calls",
        summary: "Ends the answered calls with a Call-ID: both sides get a BYE.",
        parameters: &[Parameter {
            name: "call_id",
            is_required: true,
            meaning: "Call-ID of the call.",
            values: &[],
        }],
        answer: Answer::Json(&[of::<EndedCallsView>]),
        failures: &[(404, "No answered call has this Call-ID, or it began without `longest` in [calls].")],
        ..DELETE
    },
    Operation {
        path: "/api/failures",
        summary: "The last failed requests and handshakes, with their cause and the targets tried.",
        parameters: &[
            Parameter {
                name: "call_id",
                is_required: false,
                meaning: "Call-ID of the request.",
                values: &[],
            },
            Parameter { name: "from", is_required: false, meaning: "Part of the URI of From.", values: &[] },
            Parameter {
                name: "to",
                is_required: false,
                meaning: "Part of the URI of To, or of the Request-URI.",
                values: &[],
            },
            Parameter {
                name: "last",
                is_required: false,
                meaning: "Longest time since the failure, in seconds.",
                values: &[],
            },
            Parameter {
                name: "limit",
                is_required: false,
                meaning: "Maximum number of failures. The last ones are shown.",
                values: &[],
            },
        ],
        answer: Answer::Json(&[of::<FailuresView>]),
        ..GET
    },
    Operation {
        path: "/api/connections",
        summary: "Connections: counts, reasons of their end, peers, and the certificates of this process.",
        answer: Answer::Json(&[of::<ConnectionsView>]),
        failures: &[(404, "There is no listener for TCP, TLS or WebSocket.")],
        ..GET
    },
    Operation {
        path: "/api/proxy",
        summary: "Next hops and transactions.",
        answer: Answer::Json(&[of::<ProxyView>]),
        failures: &[(404, "The process keeps no transactions.")],
        ..GET
    },
    Operation {
        path: "/api/capacity",
        summary: "Capacities that the members' monitors have announced.",
        answer: Answer::Json(&[of::<CapacityView>]),
        failures: &[(404, "The configuration has no [capacity].")],
        ..GET
    },
    Operation {
        path: "/api/registrar",
        summary: "Results of registrations, log-ins and look-ups of users, and the state of the stores.",
        answer: Answer::Json(&[of::<RegistrarView>]),
        failures: &[(404, "There is no registrar.")],
        ..GET
    },
    Operation {
        path: "/api/scale",
        summary: "Pools whose servers are started and stopped.",
        answer: Answer::Json(&[of::<ScalesView>]),
        ..GET
    },
    Operation {
        path: "/api/scale/{pool}",
        summary: "One such pool, with the number of servers that should run.",
        parameters: &[Parameter {
            name: "pool",
            is_required: true,
            meaning: "The <name> of [pool.<name>] in the configuration.",
            values: &[],
        }],
        answer: Answer::Json(&[of::<ScaleView>]),
        failures: &[(404, "No such pool has a `scale`. The text lists the pools that have one.")],
        ..GET
    },
    Operation {
        path: "/api/registrations",
        summary: "The contacts of a user, in the order in which they are tried.",
        parameters: &[USER],
        answer: Answer::Json(&[of::<ContactsView>]),
        failures: &[NO_USER, NO_STORE],
        ..GET
    },
    Operation {
        path: "/api/registrations",
        summary: "Removes one contact of a user, or all, and lists the removed contacts. A concurrent REGISTER is \
            not lost.",
        parameters: &[
            USER,
            Parameter {
                name: "contact",
                is_required: false,
                meaning: "URI of the contact to remove. Without it, all contacts are removed.",
                values: &[],
            },
        ],
        answer: Answer::Json(&[of::<ContactsView>]),
        failures: &[NO_USER, NO_STORE],
        ..DELETE
    },
    Operation {
        path: "/api/drain",
        summary: "Sends no new calls to a member. Its calls in progress continue.",
        parameters: &[MEMBER],
        answer: Answer::Json(&[of::<MembersView>]),
        failures: &[NO_MEMBER],
        ..POST
    },
    Operation {
        path: "/api/undrain",
        summary: "Ends the drain of a member, so that it gets new calls again.",
        parameters: &[MEMBER],
        answer: Answer::Json(&[of::<MembersView>]),
        failures: &[NO_MEMBER],
        ..POST
    },
    Operation {
        path: "/api/up",
        summary: "Marks a member as alive, so that it gets calls before it answers a probe.",
        parameters: &[MEMBER],
        answer: Answer::Json(&[of::<MembersView>]),
        failures: &[NO_MEMBER],
        ..POST
    },
    Operation {
        path: "/api/member/add",
        summary: "Adds a member to a pool until the next reload or restart.",
        parameters: &[
            POOL,
            Parameter { name: "address", meaning: "Address or name, as in the configuration.", ..MEMBER },
            Parameter { is_required: false, ..WEIGHT },
            Parameter { name: "name", is_required: false, meaning: "Name of the member.", values: &[] },
        ],
        answer: Answer::Json(&[of::<MembersView>]),
        failures: &[NO_POOL],
        ..POST
    },
    Operation {
        path: "/api/member/remove",
        summary: "Removes a member from a pool until the next reload or restart. Its calls continue.",
        parameters: &[POOL, MEMBER],
        answer: Answer::Json(&[of::<MembersView>]),
        failures: &[NO_POOL],
        ..POST
    },
    Operation {
        path: "/api/member/weight",
        summary: "Sets the capacity of a member until the next reload or restart.",
        parameters: &[POOL, MEMBER, WEIGHT],
        answer: Answer::Json(&[of::<MembersView>]),
        failures: &[NO_POOL],
        ..POST
    },
    Operation {
        path: "/api/reload",
        summary: "Reads the configuration again.",
        answer: Answer::Json(&[of::<Reloaded>]),
        ..POST
    },
    Operation {
        path: "/api/restart",
        summary: "Starts another process that takes over. No call is refused.",
        answer: Answer::Json(&[of::<Restarting>]),
        ..POST
    },
    Operation {
        path: "/api/stop",
        summary: "Takes no new calls. The process ends after its last call, or at the latest after [stop] wait.",
        answer: Answer::Json(&[of::<Stopping>]),
        ..POST
    },
    Operation {
        path: "/api/explain",
        summary: "Returns where a SIP request would go, and why. The query changes nothing.",
        parameters: &[
            Parameter {
                name: "from",
                is_required: false,
                meaning: "IP:PORT of the sender. The default is 127.0.0.1:5060.",
                values: &[],
            },
            Parameter {
                name: "listener",
                is_required: false,
                meaning: "IP:PORT of the listener that receives it. The default is the first listener of the \
                    sender's address family.",
                values: &[],
            },
        ],
        body: Some("The SIP request, as the content of a datagram."),
        answer: Answer::Json(&[of::<ExplanationView>]),
        ..POST
    },
    Operation {
        path: "/metrics",
        summary: "All figures for Prometheus.",
        answer: Answer::Text("text/plain; version=0.0.4; charset=utf-8"),
        ..GET
    },
];

/// Failures of any operation.
const COMMON: [(u16, &str); 3] = [
    (400, "The request is malformed or refused. The text gives the reason."),
    (403, "The request is from a web page that may not make it, or the Host is not this server."),
    (503, "The server is about to exit after its last call."),
];

const NO_TOKEN: (u16, &str) = (401, "The token is missing or wrong.");

fn described() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for operation in &OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation.described(&mut generator);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sarabande",
            "description": "The admin interface of a running server; docs/api.md describes it for users.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:8060", "description": "[admin] listen, unless set" }],
        "paths": paths,
        "security": [{}, { "token": [] }],
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Required if [admin] listen is not a loopback address, or [admin] token is set.",
                },
            },
        },
    })
}

impl Operation {
    fn described(&self, generator: &mut SchemaGenerator) -> Value {
        let name = self.path.trim_start_matches("/api").trim_start_matches('/');
        // One path can have two methods, but each name must be unique.
        let verb = if self.method == "delete" { "remove_" } else { "" };
        let name = format!("{verb}{}", name.replace("/{", "_").replace('}', ""));
        let mut responses = Map::new();
        responses.insert("200".to_owned(), self.answer.described(generator));
        let text = json!({ "text/plain": { "schema": { "type": "string" } } });
        let common =
            COMMON.iter().filter(|(status, _)| self.failures.iter().all(|(other, _)| other != status));
        for (status, meaning) in
            self.failures.iter().chain(common).chain(self.needs_token.then_some(&NO_TOKEN))
        {
            responses.insert(status.to_string(), json!({ "description": meaning, "content": &text }));
        }
        if let Some(status) = self.same_with {
            let json = self.answer.described(generator)["content"]["application/json"].clone();
            responses[&status.to_string()]["content"]["application/json"] = json;
        }
        responses.sort_keys();
        let mut all = json!({ "operationId": name, "summary": self.summary });
        if !self.parameters.is_empty() {
            all["parameters"] = self.parameters.iter().map(|it| it.described(self.path)).collect();
        }
        if let Some(body) = self.body {
            let content = json!({ "application/sip": { "schema": { "type": "string" } } });
            all["requestBody"] = json!({ "description": body, "required": true, "content": content });
        }
        if !self.needs_token {
            all["security"] = json!([]);
        }
        all["responses"] = Value::Object(responses);
        all
    }
}

impl Parameter {
    fn described(&self, path: &str) -> Value {
        let place = if path.contains(&format!("{{{}}}", self.name)) { "path" } else { "query" };
        let mut schema = json!({ "type": "string" });
        if !self.values.is_empty() {
            schema["enum"] = self.values.into();
        }
        let (name, description) = (self.name, self.meaning);
        json!({ "name": name, "in": place, "required": self.is_required, "description": description, "schema": schema })
    }
}

impl Answer {
    fn described(&self, generator: &mut SchemaGenerator) -> Value {
        match self {
            Self::Text(kind) => {
                json!({ "description": "As text.", "content": { *kind: { "schema": { "type": "string" } } } })
            }
            Self::Json(types) => {
                let mut schemas: Vec<_> = types.iter().map(|schema| schema(generator).to_value()).collect();
                let schema = if schemas.len() == 1 { schemas.remove(0) } else { json!({ "oneOf": schemas }) };
                json!({ "description": "As JSON.", "content": { "application/json": { "schema": schema } } })
            }
        }
    }
}

/// `UPDATE_DOCS=1 cargo test -p server openapi` regenerates the file.
#[test]
fn the_description_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/openapi.json");
    let made = format!("{:#}\n", described());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == made, "regenerate it with `UPDATE_DOCS=1 cargo test -p server openapi`");
}

/// The routes of the server, the routes in its answer to a wrong path, and the described routes are the same.
#[tokio::test]
async fn every_route_is_described() {
    let described: BTreeSet<_> = OPERATIONS
        .iter()
        .map(|operation| (operation.method.to_uppercase(), operation.path.to_owned()))
        .collect();
    let routes = include_str!("api.rs").lines().filter_map(|line| {
        let (path, rest) = line.trim().strip_prefix(".route(\"")?.split_once("\", ")?;
        Some((rest.split('(').next()?.to_uppercase(), path.to_owned()))
    });
    assert_eq!(described, routes.collect());
    let site = Site::start().await;
    let reply = site.ask("GET", "/nothing").await.body;
    let (_, list) = reply.trim_end().split_once("there are: ").unwrap();
    let named = list.split("; ").flat_map(|group| {
        let (method, paths) = group.trim_start().split_once(' ').unwrap();
        paths.split(", ").map(|path| (method.to_owned(), path.to_owned()))
    });
    assert_eq!(described, named.collect());
}

/// Each answer has exactly the keys and the types of values of its description.
#[tokio::test]
async fn answers_are_as_described() {
    let description = described();
    let (pool, proxy, home) = (Site::start().await, Site::proxy().await, Site::home().await);
    let (dialogs, scaled) = (Site::dialogs().await, Site::scaled().await);
    home.register("sip:bob@127.0.0.1:5099").await;
    pool.call("described").await;
    let invite = request(pool.sip, "INVITE", "described");
    let member = pool.alive;
    for (site, method, path, query, body) in [
        (&pool, "get", "/api/health", String::new(), ""),
        (&proxy, "get", "/api/health", String::new(), ""),
        (&pool, "get", "/api/members", "?oldest=true".to_owned(), ""),
        (&pool, "get", "/api/members", "?brief=true".to_owned(), ""),
        (&pool, "get", "/api/history", String::new(), ""),
        (&pool, "get", "/api/sessions", String::new(), ""),
        (&pool, "get", "/api/sessions", "?call_id=described".to_owned(), ""),
        (&proxy, "get", "/api/proxy", String::new(), ""),
        (&dialogs, "get", "/api/proxy", String::new(), ""),
        (&home, "get", "/api/health", String::new(), ""),
        (&scaled, "get", "/api/health", String::new(), ""),
        (&scaled, "get", "/api/scale", String::new(), ""),
        (&scaled, "get", "/api/scale/{pool}", String::new(), ""),
        (&home, "get", "/api/registrar", String::new(), ""),
        (&home, "get", "/api/registrations", "?user=bob@example.com".to_owned(), ""),
        (&home, "delete", "/api/registrations", "?user=bob@example.com".to_owned(), ""),
        (&pool, "post", "/api/drain", format!("?member={member}"), ""),
        (&pool, "post", "/api/undrain", format!("?member={member}"), ""),
        (&pool, "post", "/api/up", format!("?member={member}"), ""),
        (&pool, "post", "/api/member/add", "?pool=servers&address=127.9.0.1".to_owned(), ""),
        (&pool, "post", "/api/member/weight", format!("?pool=servers&member={member}&weight=2"), ""),
        (&pool, "post", "/api/member/remove", "?pool=servers&member=127.9.0.1".to_owned(), ""),
        (&pool, "post", "/api/explain", String::new(), invite.as_str()),
        (&pool, "post", "/api/restart", String::new(), ""),
        (&pool, "post", "/api/stop", String::new(), ""),
    ] {
        let operation = &description["paths"][path][method];
        let given = |name: &str| query.contains(&format!("?{name}="));
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let known: Vec<_> = parameters.map(|parameter| parameter["name"].as_str().unwrap()).collect();
        assert!(query.is_empty() || known.iter().any(|name| given(name)), "{path}{query}: {known:?}");
        let reply = site
            .send(&method.to_uppercase(), &format!("{}{query}", path.replace("{pool}", "servers")), "", body)
            .await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        let choices = schema["oneOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
        let fits: Vec<_> = choices.iter().map(|schema| fits(&reply.json(), schema, &description)).collect();
        assert_eq!(fits.iter().filter(|fits| fits.is_ok()).count(), 1, "{path}{query}: {fits:?}");
    }
}

#[tokio::test]
async fn health_without_new_calls_has_the_same_json() {
    let site = Site::start().await;
    site.call("last").await;
    assert_eq!(site.ask("POST", "/api/stop").await.status, 200);
    let reply = site.ask("GET", "/api/health").await;
    assert_eq!(reply.status, 503);
    let root = described();
    let answers = &root["paths"]["/api/health"]["get"]["responses"];
    assert_eq!(fits(&reply.json(), &answers["503"]["content"]["application/json"]["schema"], &root), Ok(()));
}

/// Returns whether a value matches a schema, for the parts of JSON Schema that are used here.
fn fits(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return fits(value, root.pointer(reference.trim_start_matches('#')).unwrap(), root);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let one = choices.iter().any(|schema| fits(value, schema, root).is_ok());
        return one.then_some(()).ok_or_else(|| format!("{value} matches no alternative of {schema}"));
    }
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return Err(format!("{schema} has no type")),
    };
    let is = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    if !kinds.into_iter().any(is) {
        return Err(format!("{value} is not of type {}", schema["type"]));
    }
    for item in value.as_array().into_iter().flatten() {
        fits(item, &schema["items"], root)?;
    }
    let Some(map) = value.as_object() else { return Ok(()) };
    if let Some(properties) = schema["properties"].as_object() {
        for (key, value) in map {
            fits(value, properties.get(key).ok_or_else(|| format!("{key} is not described"))?, root)?;
        }
        let missing = properties.keys().find(|key| !map.contains_key(*key));
        return missing.map_or(Ok(()), |key| Err(format!("{key} is missing")));
    }
    map.values().try_for_each(|value| fits(value, &schema["additionalProperties"], root))
}

/// Shows that the check above can fail.
#[test]
fn an_extra_a_missing_or_a_mistyped_key_is_found() {
    let root = described();
    let schema = json!({ "$ref": "#/components/schemas/Shard" });
    let says = |value: Value| fits(&value, &schema, &root).err().unwrap_or_default();
    assert_eq!(says(json!({ "active": 1, "expired": 2, "transactions": 3 })), "");
    assert_eq!(says(json!({ "active": 1, "expired": 2 })), "transactions is missing");
    assert_eq!(
        says(json!({ "active": 1, "expired": "2", "transactions": 3 })),
        "\"2\" is not of type \"integer\""
    );
    assert_eq!(says(json!({ "active": 1, "expired": 2, "transactions": 3, "x": 4 })), "x is not described");
    let mut found = BTreeSet::new();
    keys(&root, &mut found);
    assert!(!found.contains("$defs"), "all schemas are where OpenAPI has them");
}
