use super::*;
use std::{
    os::unix::net::UnixListener,
    sync::{Arc, Mutex},
    thread,
};

/// What was called: the member, and the texts and numbers among its arguments.
pub(crate) type Called = Arc<Mutex<Vec<String>>>;

/// What a member answers: a number, an object's path, or an error.
pub(crate) enum Answer {
    Nothing,
    Number(u32),
    /// In a variant.
    Property(u32),
    Path(&'static str),
    Error(&'static str),
}

/// A bus at `path` with one thing behind it, whatever it is called.
pub(crate) fn fake(path: &Path, answer: impl Fn(&str) -> Answer + Send + 'static) -> Called {
    let listener = UnixListener::bind(path).unwrap();
    let called = Called::default();
    let all = called.clone();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let mut bus = Bus { stream, serial: 0 };
            assert!(bus.line().unwrap().starts_with("\0AUTH EXTERNAL "));
            bus.stream.write_all(b"OK 0123\r\n").unwrap();
            assert_eq!(bus.line().unwrap(), "BEGIN");
            while let Ok((serial, member, args)) = received(&mut bus.stream) {
                if member != "Hello" {
                    all.lock().unwrap().push(format!("{member} {args}").trim_end().to_owned());
                }
                // A signal first, which no one waits for.
                bus.stream.write_all(&answered(4, 0, &Answer::Nothing)).unwrap();
                let answer = answer(&member);
                let kind = if matches!(answer, Answer::Error(_)) { ERROR } else { METHOD_RETURN };
                bus.stream.write_all(&answered(kind, serial, &answer)).unwrap();
            }
        }
    });
    called
}

fn received(stream: &mut UnixStream) -> io::Result<(u32, String, String)> {
    let mut start = [0; 16];
    stream.read_exact(&mut start)?;
    let at = |from: usize| u32::from_ne_bytes(start[from..from + 4].try_into().unwrap());
    let padded = usize::try_from(at(12)).unwrap().next_multiple_of(8);
    let mut bytes = start.to_vec();
    bytes.resize(16 + padded + usize::try_from(at(4)).unwrap(), 0);
    stream.read_exact(&mut bytes[16..])?;
    let (head, body) = bytes.split_at(16 + padded);
    let (fields, _) = Reader { bytes: head, at: FIELDS_AT }.value(b"a(yv)", 0).unwrap();
    let Value::List(fields) = fields else { panic!("{fields:?}") };
    let field = |wanted: u64| {
        fields.iter().find_map(|field| match field {
            Value::List(pair) if pair[0] == Value::Number(wanted) => Some(words(&pair[1])),
            _ => None,
        })
    };
    let (signature, mut reader) = (field(8).unwrap_or_default(), Reader { bytes: body, at: 0 });
    let (mut rest, mut args) = (signature.as_bytes(), Vec::new());
    while !rest.is_empty() {
        let (value, after) = reader.value(rest, 0).unwrap();
        args.push(words(&value));
        rest = after;
    }
    assert_eq!(reader.at, body.len());
    Ok((at(8), field(3).unwrap(), args.join(" ")))
}

fn words(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::List(items) => format!("[{}]", items.iter().map(words).collect::<Vec<_>>().join(" ")),
    }
}

fn answered(kind: u8, to: u32, answer: &Answer) -> Vec<u8> {
    let (mut fields, mut body) = (Writer::default(), Writer::default());
    fields.field(5, "u");
    fields.number(to);
    let signature = match answer {
        Answer::Nothing => "",
        Answer::Number(number) => {
            body.number(*number);
            "u"
        }
        Answer::Property(number) => {
            body.signature("u");
            body.number(*number);
            "v"
        }
        Answer::Path(path) => {
            body.text(path);
            "o"
        }
        Answer::Error(text) => {
            fields.field(4, "s");
            fields.text("org.example.Error");
            body.text(text);
            "s"
        }
    };
    if !signature.is_empty() {
        fields.field(8, "g");
        fields.signature(signature);
    }
    let mut message = Writer(vec![b'l', kind, 0, 1]);
    [length(&body.0), 7, length(&fields.0)].into_iter().for_each(|number| message.number(number));
    message.0.extend(fields.0);
    message.align(8);
    message.0.extend(body.0);
    message.0
}

const ANY: Target = Target { destination: "org.example.D", path: "/p", interface: "org.example.I" };

#[test]
fn methods_are_called_and_answer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus");
    let called = fake(&path, |member| match member {
        "Get" => Answer::Property(2),
        "Make" => Answer::Path("/made/1"),
        "Fail" => Answer::Error("not allowed"),
        _ => Answer::Nothing,
    });
    let mut bus = Bus::connect(&path).unwrap();
    let list = ["/a".to_owned(), "/bc".to_owned()];
    let made = bus.call(ANY, "Make", &[Arg::Paths(&list), Arg::Number(60), Arg::Texts(&[]), Arg::Text("é")]).unwrap();
    assert_eq!(made, [Value::Text("/made/1".into())]);
    assert_eq!(bus.call(ANY, "Get", &[Arg::Path("/x")]).unwrap(), [Value::Number(2)]);
    let error = bus.call(ANY, "Fail", &[]).unwrap_err();
    assert_eq!(error.to_string(), "Fail failed: not allowed (org.example.Error)");
    assert_eq!(*called.lock().unwrap(), ["Make [/a /bc] 60 [] é", "Get /x", "Fail"]);
}

#[test]
fn a_bus_that_is_missing_or_refuses_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus");
    assert!(matches!(Bus::connect(&path), Err(BusError::Connect { .. })));
    let listener = UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"REJECTED EXTERNAL\r\n").unwrap();
        stream
    });
    assert!(matches!(Bus::connect(&path), Err(BusError::Refused(text)) if text == "REJECTED EXTERNAL"));
    server.join().unwrap();
}

#[test]
fn messages_that_are_cut_or_damaged_are_refused() {
    let answers = [Answer::Nothing, Answer::Property(7), Answer::Path("/made/1"), Answer::Error("not allowed")];
    let all: Vec<u8> = answers.iter().flat_map(|answer| answered(METHOD_RETURN, 1, answer)).collect();
    assert_eq!(fuzz(&all), answers.len());
    for len in 0..all.len() {
        assert!(fuzz(&all[..len]) < answers.len(), "{len}");
    }
    for at in 0..all.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut damaged = all.clone();
            damaged[at] = byte;
            fuzz(&damaged);
        }
    }
}

#[test]
fn hostile_messages_are_refused() {
    let value = |signature: &str, bytes: &[u8]| Reader { bytes, at: 0 }.value(signature.as_bytes(), 0).map(|(v, _)| v);
    let text = |text: &str| Value::Text(text.into());
    let mut map = Writer::default();
    map.number(16);
    map.align(8);
    map.text("dev");
    map.number(1);
    map.number(0);
    assert_eq!(value("a{su}", &map.0), None, "cut");
    map.0[0] = 12;
    let pair = Value::List(vec![text("dev"), Value::Number(1)]);
    assert_eq!(value("a{su}", &map.0), Some(Value::List(vec![pair])));
    for (signature, bytes) in [
        ("s", &[255, 255, 255, 255, 0][..]),
        ("as", &[255, 255, 255, 127]),
        ("u", &[1, 2]),
        ("()", &[0; 8]),
        ("(u", &[0; 8]),
        ("z", &[0; 8]),
        ("", &[0; 8]),
        ("a", &[0; 8]),
        ("v", &[2, b'u', b'u', 0, 0, 0, 0, 0]),
        (&"a".repeat(200), &[0; 8]),
        (&"(".repeat(200), &[0; 8]),
    ] {
        assert_eq!(value(signature, bytes), None, "{signature}");
    }
    let nested: Vec<u8> = [1, b'v', 0].repeat(100);
    assert_eq!(value("v", &nested), None);
    for len in 0..64 {
        let noise: Vec<u8> = (0..len).map(|i: u8| i.wrapping_mul(37)).collect();
        for signature in ["a(yv)", "v", "aas", "a{sv}", "(susg)"] {
            let _ = value(signature, &noise);
        }
    }
}
