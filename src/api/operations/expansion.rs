//! The macro that makes operations of the rows of the table. It uses the names that `table.rs` imports.

/// Expands a table of rows into a list of operations.
macro_rules! operations {
    ($(
        $(#[doc = $summary:literal])+
        $name:literal $verb:ident $($path:literal)|+ $status:literal $access:ident $effect:expr
            => $service:ident.$method:ident($input:ty) -> $output:ty $(, $error:ident)*;
    )*) => {
        vec![$(Operation {
            name: $name,
            verb: Verb::$verb,
            paths: &[$($path),+],
            status: $status,
            access: Access::$access,
            effect: $effect,
            summary: concat!($($summary),+).trim_ascii(),
            input: SchemaGenerator::subschema_for::<$input>,
            output: SchemaGenerator::subschema_for::<$output>,
            errors: &[$(&ErrorKind::$error),*],
            handler: Arc::new(|feed, call, input| Box::pin(async move {
                encode(&feed.$service.$method(call.into(), decode::<$input>(input)?).await?)
            })),
        }),*]
    };
}

pub(super) use operations;
