//! The description of the state of the deployment.

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::errors::ErrorResponses;
use super::schemas::Schemas;
use crate::api::ErrorKind;
use crate::feed::DeploymentStatus;

/// Describes `GET /api/status`.
pub(super) fn describe_status(schemas: &mut Schemas, errors: &mut ErrorResponses) -> Value {
    let status = schemas.output(SchemaGenerator::subschema_for::<DeploymentStatus>);
    let mut responses = errors.refer(&[&ErrorKind::UNAUTHORIZED, &ErrorKind::INTERNAL]);
    let example = json!({
        "nodes": [{
            "id": "0b1f4dd1-3a4e-4f0e-9d52-0f2a7f1f0b2c", "name": "feed1_8000", "number": 3, "version": "0.1.0",
            "started_at": 1_795_236_753_868_u64, "clock_skew": 2,
            "lease_until": 1_795_236_761_868_u64, "partitions": 34,
        }],
        "stores": { "postgres": "ok", "redis": "ok" },
        "work": { "fanout": { "waiting": 0, "oldest_seconds": 0 } },
        "quarantine": 0,
        "failover": "none",
    });
    let content = json!({ "application/json": { "schema": status, "example": example } });
    responses.insert("200".into(), json!({ "description": "Done.", "content": content }));
    json!({
        "operationId": "status",
        "summary": "Returns the live nodes, the state of the stores, and the work that waits.",
        "tags": ["operation"],
        "security": [{ "api_key": [] }],
        "responses": responses,
    })
}
