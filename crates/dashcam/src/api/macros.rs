//! `span!`, `event!`, `request!`.
//!
//! Names and keys become statics of the call site, interned once a recorder. Attributes are
//! `key = value`; a key is a word or a text (`"http.status" = 200`), a value anything that is
//! `Into<Held>`: integers, floats, truth values, texts, `Option` of these, `Held::display(&x)`, or
//! `Later`. They are evaluated only while recording is on.

/// Nested work: a guard that records a span when it is dropped.
///
/// ```
/// fn query(name: &str) -> usize {
///     let mut span = dashcam::span!("db.query", table = name, rows = dashcam::Later);
///     let rows = name.len();
///     span.set("rows", rows);
///     rows
/// }
/// assert_eq!(query("users"), 5);
/// ```
///
/// A name made at run time costs a lookup under a lock, and each distinct one takes room in the
/// black box for ever: `span!(name: &text)`.
#[macro_export]
macro_rules! span {
    (name: $name:expr $(, $key:tt = $value:expr)* $(,)?) => {
        $crate::__moment!(SpanGuard, begin, epoch, $crate::__private::dynamic(epoch, $name)
            $(, $key = $value)*)
    };
    ($name:expr $(, $key:tt = $value:expr)* $(,)?) => {{
        static NAME: $crate::Site = $crate::Site::new($name);
        $crate::__moment!(SpanGuard, begin, epoch, NAME.id(epoch) $(, $key = $value)*)
    }};
}

/// A unit of work whose latency is judged (`slow=`): a guard that ends it when dropped. Spans and
/// events of its thread belong to it meanwhile; requests nest.
///
/// ```
/// let route = "GET /checkout";
/// let mut request = dashcam::request!(name: route, user = 42);
/// request.fail();
/// drop(request);
/// let _request = dashcam::request!("nightly report");
/// ```
#[macro_export]
macro_rules! request {
    (name: $name:expr $(, $key:tt = $value:expr)* $(,)?) => {
        $crate::__moment!(RequestGuard, begin, epoch,
            $crate::__private::dynamic_request(epoch, $name) $(, $key = $value)*)
    };
    ($name:expr $(, $key:tt = $value:expr)* $(,)?) => {{
        static NAME: $crate::Site = $crate::Site::new($name);
        $crate::__moment!(RequestGuard, begin, epoch, NAME.request_id(epoch)
            $(, $key = $value)*)
    }};
}

/// Something at a point in time.
///
/// ```
/// dashcam::event!("cache.miss", key = "k1");
/// dashcam::event!("pool.grown", "pool.size" = 8, because = Some("busy"));
/// ```
#[macro_export]
macro_rules! event {
    (name: $name:expr $(, $key:tt = $value:expr)* $(,)?) => {
        $crate::__event!(epoch, $crate::__private::dynamic(epoch, $name) $(, $key = $value)*)
    };
    ($name:expr $(, $key:tt = $value:expr)* $(,)?) => {{
        static NAME: $crate::Site = $crate::Site::new($name);
        $crate::__event!(epoch, NAME.id(epoch) $(, $key = $value)*)
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __moment {
    ($guard:ident, $begin:ident, $epoch:ident, $name:expr $(, $key:tt = $value:expr)*) => {
        match $crate::__private::door() {
            0 => $crate::$guard::off(),
            $epoch => {
                const COUNT: usize = <[&str]>::len(&[$($crate::__key!($key)),*]);
                static KEYS: [$crate::Site; COUNT] =
                    [$($crate::Site::new($crate::__key!($key))),*];
                $crate::$guard::$begin($epoch, $name, &KEYS, [$($crate::Held::from($value)),*])
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __event {
    ($epoch:ident, $name:expr $(, $key:tt = $value:expr)*) => {
        match $crate::__private::door() {
            0 => (),
            $epoch => {
                const COUNT: usize = <[&str]>::len(&[$($crate::__key!($key)),*]);
                static KEYS: [$crate::Site; COUNT] =
                    [$($crate::Site::new($crate::__key!($key))),*];
                $crate::__private::event_now(
                    $epoch, $name, &KEYS, [$($crate::Held::from($value)),*])
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __key {
    ($key:ident) => {
        stringify!($key)
    };
    ($key:literal) => {
        $key
    };
}
