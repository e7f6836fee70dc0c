//! Objects that are kept for the life of the process, made when the module is imported: a request
//! makes none of them, so that a lack of memory then has nothing to meet.
//!
//! How it works: a pointer, set once. The names of attributes and keys are one list; `word!` takes
//! no other. Not a `PyOnceLock`, nor `intern!`, which is made of one: it releases the GIL while it
//! is being set, and a child that another thread forks then would wait for ever at its own use.
//!
//! Missing on purpose: objects of modules that the program has not imported yet (`event_loop`).

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use sys::cell::StaticRef;

use crate::made;

/// A dict.
pub struct Dict(StaticRef<Py<PyDict>>);

impl Dict {
    /// Not made yet.
    pub const fn new() -> Dict {
        Dict(StaticRef::empty())
    }

    /// Makes it. Errors: there is no memory.
    pub fn make(&'static self, py: Python<'_>) -> PyResult<()> {
        let dict = made::dict(py)?.unbind();
        self.0.get_or_make(|| dict);
        Ok(())
    }

    /// The dict, once it was made.
    #[inline]
    pub fn get(&self) -> Option<&'static Py<PyDict>> {
        self.0.get()
    }
}

/// A str with the name of an attribute or key of the program's objects.
pub struct Word {
    text: &'static str,
    kept: StaticRef<Py<PyString>>,
}

impl Word {
    const fn new(text: &'static str) -> Word {
        Word { text, kept: StaticRef::empty() }
    }

    fn make(&'static self, py: Python<'_>) -> PyResult<()> {
        let word = made::interned(py, self.text)?.unbind();
        self.kept.get_or_make(|| word);
        Ok(())
    }

    /// The str. `make_words` has made it: nothing else of the module runs before.
    #[inline]
    pub fn get<'py>(&'static self, py: Python<'py>) -> &'py Bound<'py, PyString> {
        self.kept.get_or_make(|| PyString::intern(py, self.text).unbind()).bind(py)
    }
}

/// A static for each word, `make_words` for all, and `word!(py, TEXT)`, which gives the str.
macro_rules! words {
    ($d:tt: $($name:ident = $text:tt,)*) => {
        $(pub static $name: Word = Word::new($text);)*

        /// Makes all words. Errors: there is no memory.
        pub fn make_words(py: Python<'_>) -> PyResult<()> {
            [$(&$name),*].into_iter().try_for_each(|word| word.make(py))
        }

        /// As `pyo3::intern!`, for words of the list in `kept`.
        macro_rules! word {
            $(($d py:expr, $text) => { $crate::kept::$name.get($d py) };)*
        }
        pub(crate) use word;
    };
}

words! { $:
    AGAIN = "_again",
    ALL_TASKS = "_all_tasks",
    ASYNCIO = "_asyncio",
    AWAIT = "__await__",
    CALL = "__call__",
    CALLBACKS = "_callbacks",
    CLIENT = "client",
    CLOSE = "close",
    CLOSING_ITERATOR = "ClosingIterator",
    CODE = "__code__",
    COLLECTED = "collected",
    CONTEXT = "__context__",
    CO_FILENAME = "co_filename",
    CO_FIRSTLINENO = "co_firstlineno",
    CO_FLAGS = "co_flags",
    CO_NAME = "co_name",
    CO_NAMES = "co_names",
    CO_QUALNAME = "co_qualname",
    CR_AWAIT = "cr_await",
    CURRENT_FRAMES = "_current_frames",
    CURRENT_TASK = "current_task",
    CURRENT_TASKS = "_current_tasks",
    CURRENT_THREAD = "current_thread",
    CURSOR = "cursor",
    DASHCAM_DECORATING = "dashcam._decorating",
    DASHCAM_NOTICES = "dashcam._notices",
    DATA = "data",
    DECORATE = "decorate",
    DISABLE = "disable",
    DJANGO_HTTP_RESPONSE = "django.http.response",
    ENABLE = "enable",
    FILENO = "fileno",
    FUNC = "func",
    FUNC_OF_METHOD = "__func__",
    F_BACK = "f_back",
    F_CODE = "f_code",
    F_GLOBALS = "f_globals",
    F_LINENO = "f_lineno",
    GC = "gc",
    GENERATION = "generation",
    GETCURRENT = "getcurrent",
    GETSIGNAL = "getsignal",
    GET_EXTRA_INFO = "get_extra_info",
    GET_RUNNING_LOOP = "_get_running_loop",
    GI_CODE = "gi_code",
    GREENLET = "greenlet",
    HEADERS = "headers",
    HOST = "host",
    HTTP_RESPONSE_BASE = "HttpResponseBase",
    HTTP_TRACEPARENT = "HTTP_TRACEPARENT",
    HTTP_TRACESTATE = "HTTP_TRACESTATE",
    ISENABLED = "isenabled",
    IS_FINALIZING = "is_finalizing",
    IS_GIL_ENABLED = "_is_gil_enabled",
    META = "meta",
    METHOD = "method",
    MORE_BODY = "more_body",
    NAME = "__name__",
    NAME_OF_IT = "name",
    NATIVE_ID = "_native_id",
    NEXT = "_next",
    NOTICE = "notice",
    PARENT = "parent",
    PATH = "path",
    PATH_INFO = "PATH_INFO",
    PORT = "port",
    QUALNAME = "__qualname__",
    RELEASE = "release",
    REQUEST = "request",
    REQUEST_METHOD = "REQUEST_METHOD",
    RESOURCE_CLOSERS = "_resource_closers",
    RULE = "rule",
    SCHEDULED_TASKS = "_scheduled_tasks",
    SCOPE = "scope",
    SELF = "__self__",
    SEND = "send",
    SERVICE_MODEL = "service_model",
    SERVICE_NAME = "service_name",
    SET = "__set__",
    SIGNAL = "_signal",
    SIZEOF = "__sizeof__",
    SLASH = "/",
    SOCKET = "socket",
    SOCK_FD = "_sock_fd",
    STATUS = "status",
    STATUS_CODE = "status_code",
    STATUS_CODE_HELD = "_status_code",
    SYS = "sys",
    TASK = "Task",
    TB_FRAME = "tb_frame",
    TB_NEXT = "tb_next",
    THREADING = "threading",
    THROW = "throw",
    TRANSPORT = "transport",
    TYPE = "type",
    URL = "url",
    URL_RULE = "url_rule",
    WERKZEUG_SOCKET = "werkzeug.socket",
    WERKZEUG_WSGI = "werkzeug.wsgi",
    IN_TRANSACTION = "in_transaction",
    WRAPPED = "__wrapped__",
}
