//! The last word to the service.

use super::{Unfinished, operators};
use crate::{
    Context,
    clock::{Look, until},
};
use serde_json::{Value, json};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(60);
/// What the service looks for in the data.
const OPERATORS_REPORT: &str = "CLUSTER_OPERATORS_REPORT";

/// Sent until the service takes it; at the end of the work, once.
pub(super) async fn send(ctx: &Context, result: Result<(), Unfinished>) {
    let body = match result {
        Ok(()) => json!({"is_success": true}),
        Err(why) => {
            ctx.faults.set_failed();
            tell_why(ctx, &why).await;
            failure(&why, operators::overview(ctx).await)
        }
    };
    let look = || async {
        match ctx.service.complete(&body).await {
            Ok(()) => Look::Done,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the service did not take the completion");
                Look::Again
            }
        }
    };
    if until(&ctx.clock, &ctx.end, INTERVAL, None, look).await.is_ok() {
        tracing::info!(success = %body["is_success"], "completed");
        ctx.follow.look_soon();
    }
}

fn failure(why: &Unfinished, operators: Option<Vec<Value>>) -> Value {
    let mut body = json!({"is_success": false, "error_info": why.to_string()});
    if let (Some(operators), Some(body)) = (operators, body.as_object_mut()) {
        body.insert("data".to_owned(), json!({ OPERATORS_REPORT: operators }));
    }
    body
}

/// The service keeps no reason of a completion. As an event people see it.
async fn tell_why(ctx: &Context, why: &Unfinished) {
    let message = format!("The controller did not finish the cluster: {why}");
    if let Err(error) = ctx.service.event("controller_gave_up", "error", &message, json!({})).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "the service did not take the event");
    }
}
