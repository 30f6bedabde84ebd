//! The hook of a job's span.

use std::fmt;
use std::sync::Arc;

use crate::model::trace::TraceContext;

type OnJobSpan = dyn Fn(&tracing::Span, &TraceContext) + Send + Sync;

/// The hook for the span of each job that carries a trace.
#[derive(Clone)]
pub(crate) struct JobSpanHook(pub(crate) Arc<OnJobSpan>);

impl JobSpanHook {
    pub(crate) fn call(&self, span: &tracing::Span, trace: &TraceContext) {
        self.0(span, trace);
    }
}

impl fmt::Debug for JobSpanHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSpanHook")
    }
}
