//! The doctor among broken networks: each break is found and named as the cause, with its repair.

// Clippy takes only functions marked #[test] for tests, not what they call.
#![allow(clippy::unwrap_used)]

mod lab;

use api::http::HttpConfig;
use clap::Parser;
use lab::{
    DAY_S, Fake, GATEWAY, GATEWAY_MAC, GATEWAY_V6, Lab, NAME, NAME_SERVER, NAME_SERVER_V6, OTHER_MAC, OUR_MAC, SERVICE,
    SERVICE_V6, TIME_SERVER, bound, plain_service,
};
use netcheck::{
    cli::{Netcheck, Outcome},
    doctor::{Code, DoctorOptions, Finding, ProxyVariables, Report, Station, Verdict, diagnose},
};
use std::{fs, path::Path, process::ExitCode, time::Duration};
use testkit::net::time_server::TimeServer;

/// The stations that are not as they should be, with their verdicts.
fn unsound(report: &Report) -> Vec<(Station, Verdict)> {
    let unsound = report.stations.iter().filter(|finding| finding.verdict != Verdict::Ok);
    unsound.map(|finding| (finding.station, finding.verdict)).collect()
}

fn broken(station: Station, code: Code, seen: &str, next: &str) -> Finding {
    let (seen, next) = (seen.to_owned(), Some(next.to_owned()));
    Finding { station, verdict: Verdict::Broken, code, seen, next, because_of: None }
}

/// The report's cause is this finding, word by word.
#[track_caller]
fn assert_cause(report: &Report, expected: &Finding) {
    assert_eq!((report.reachable, report.cause), (false, Some(expected.station)));
    assert_eq!(report.station(expected.station), Some(expected));
}

#[test]
fn a_sound_way_is_passed_from_link_to_service() {
    let Some(lab) = Lab::new() else { return };
    let certificate = lab.certificate(-1, 30);
    let (Some(_service), Some(_names)) = (lab.tls_service(&certificate), lab.name_server()) else { return };
    let _time = TimeServer::ahead(&lab.gateway.namespace, TIME_SERVER, 0);
    let options = DoctorOptions {
        http: HttpConfig { ca_cert: Some(certificate.ca), insecure: false, proxies: None },
        ntp_servers: vec![TIME_SERVER.to_owned()],
        ..lab.options(&format!("https://{NAME}"))
    };
    let report = lab.diagnose(&options);
    let time = report.station(Station::Time).unwrap();
    assert!(time.seen.starts_with("right: ") && time.seen.ends_with(" according to 203.0.113.123"), "{time:?}");
    let seen = [
        format!("ens3 ({OUR_MAC}) is up"),
        "10.0.0.1/24 on ens3".to_owned(),
        format!("{GATEWAY} on ens3 ({GATEWAY_MAC}) answers; it is the next hop to the service {SERVICE}"),
        "no other station on the segment has an address of ours".to_owned(),
        format!("{NAME} is {SERVICE}, from {NAME_SERVER}"),
        time.seen.clone(),
        "not needed: none is set".to_owned(),
        format!("certificate of CN={NAME}, issued by CN=Lab CA, valid until {}", certificate.until),
        "the service answers; its release is v2.40.0".to_owned(),
    ];
    assert_eq!(report.stations.iter().map(|finding| finding.seen.clone()).collect::<Vec<_>>(), seen);
    assert!(report.stations.iter().all(|finding| finding.verdict == Verdict::Ok), "{report:?}");
    assert_eq!((report.reachable, report.cause), (true, None));
    assert!(report.to_text(usize::MAX).ends_with("\nThe service at https://api.example.com can be reached.\n"));
}

#[test]
fn a_sound_way_of_ipv6_alone_is_passed_from_link_to_service() {
    let Some(lab) = Lab::of_ipv6() else { return };
    let certificate = lab.certificate(-1, 30);
    let (Some(_service), Some(_names)) = (lab.tls_service(&certificate), lab.name_server()) else { return };
    let http = HttpConfig { ca_cert: Some(certificate.ca), insecure: false, proxies: None };
    for (host, dns) in [
        (NAME.to_owned(), format!("{NAME} is {SERVICE_V6}, from {NAME_SERVER_V6}")),
        (format!("[{SERVICE_V6}]"), format!("not needed: {SERVICE_V6} is an address")),
    ] {
        let url = format!("https://{host}");
        let report = lab.diagnose(&DoctorOptions { http: http.clone(), ..lab.options(&url) });
        let seen = [
            format!("ens3 ({OUR_MAC}) is up"),
            "2001:db8:1::1/64 on ens3".to_owned(),
            format!("{GATEWAY_V6} on ens3 ({GATEWAY_MAC}) answers; it is the next hop to the service {SERVICE_V6}"),
            "no other station on the segment has an address of ours".to_owned(),
            dns,
            "right to about a second, according to the date of the service's answer".to_owned(),
            "not needed: none is set".to_owned(),
            format!("certificate of CN={NAME}, issued by CN=Lab CA, valid until {}", certificate.until),
            "the service answers; its release is v2.40.0".to_owned(),
        ];
        assert_eq!(report.stations.iter().map(|finding| finding.seen.clone()).collect::<Vec<_>>(), seen);
        assert_eq!((unsound(&report), report.reachable, report.cause), (vec![], true, None));
        assert!(report.to_text(usize::MAX).ends_with(&format!("\nThe service at {url} can be reached.\n")));
    }
}

#[test]
fn an_ipv6_gateway_that_is_silent() {
    let Some(lab) = Lab::of_ipv6() else { return };
    lab.us.namespace.ip("-6 route replace default via fe80::fd dev ens3");
    let report = lab.diagnose(&lab.options(&format!("http://[{SERVICE_V6}]:8090")));
    let seen =
        format!("fe80::fd on ens3, the next hop to the service {SERVICE_V6}, answers neither ARP or NDP nor ping");
    let next = "check that fe80::fd is the right gateway for this network, that it is up, and that ens3 is on its VLAN";
    assert_cause(&report, &broken(Station::Gateway, Code::GatewaySilent, &seen, next));
}

#[test]
fn no_carrier() {
    let Some(lab) = Lab::new() else { return };
    lab.segment.unplug(&lab.us);
    let report = lab.diagnose(&lab.options("http://203.0.113.7:8090"));
    let skipped = |station| format!("{station:<9}  -       not checked, because of link\n");
    let expected = format!(
        "link       BROKEN  ens3 ({OUR_MAC}) is up but has no carrier\n\
         {:19}-> check the cable of ens3 at both ends, and that the switch port is enabled at the same speed\n\
         {}\n\
         The service at http://203.0.113.7:8090 cannot be reached. First failure: link.\n",
        "",
        ["address", "gateway", "duplicate", "dns", "time", "proxy", "tls", "service"].map(skipped).concat(),
    );
    assert_eq!(report.to_text(usize::MAX), expected);
    lab.us.namespace.ip("link set ens3 down");
    let report = lab.diagnose(&lab.options("http://203.0.113.7:8090"));
    let seen = format!("ens3 ({OUR_MAC}) is down");
    let next = "set it up (`ip link set ens3 up`), and find out why the network configuration does not";
    assert_cause(&report, &broken(Station::Link, Code::SwitchedOff, &seen, next));
}

#[test]
fn no_address() {
    let Some(lab) = Lab::new() else { return };
    lab.us.namespace.ip("address del 10.0.0.1/24 dev ens3");
    let report = lab.diagnose(&lab.options("http://203.0.113.7:8090"));
    let seen = "only link-local: fe80::5054:ff:feaa:bb01/64 on ens3; no address was assigned (DHCP failed)";
    let next = "check that a DHCP server answers on the network of ens3 (right switch port and VLAN?), or give ens3 a static address";
    assert_cause(&report, &broken(Station::Address, Code::LinkLocalOnly, seen, next));
}

#[test]
fn no_gateway() {
    let Some(lab) = Lab::new() else { return };
    lab.us.namespace.ip("route del default");
    let report = lab.diagnose(&lab.options("http://203.0.113.7:8090"));
    let seen = "no route to the service 203.0.113.7, and no default route";
    let next = "a default route comes from DHCP, a router advertisement or the network configuration: find out why it is \
                missing (`ip route add default via GATEWAY` helps until the next boot)";
    assert_cause(&report, &broken(Station::Gateway, Code::NoRoute, seen, next));

    lab.us.route("default", "10.0.0.253");
    let report = lab.diagnose(&lab.options("http://203.0.113.7:8090"));
    let seen = "10.0.0.253 on ens3, the next hop to the service 203.0.113.7, answers neither ARP or NDP nor ping";
    let next =
        "check that 10.0.0.253 is the right gateway for this network, that it is up, and that ens3 is on its VLAN";
    assert_cause(&report, &broken(Station::Gateway, Code::GatewaySilent, seen, next));
}

#[test]
fn an_address_held_twice() {
    let Some(lab) = Lab::new() else { return };
    let _other = lab.segment.host("other", OTHER_MAC, &["10.0.0.1/24"]);
    // What comes back from the service may go to the other: then nobody answers.
    let options = DoctorOptions { timeout: Duration::from_secs(3), ..lab.options("http://203.0.113.7:8090") };
    let report = lab.diagnose(&options);
    let seen = format!("10.0.0.1 of ens3 is also held by {OTHER_MAC}");
    let next = format!(
        "replies to us may go to the other station: find {OTHER_MAC} in the switch's table and change the address of one \
         of them"
    );
    assert_cause(&report, &broken(Station::Duplicate, Code::DuplicateAddress, &seen, &next));
}

#[test]
fn a_name_server_that_is_silent() {
    let Some(lab) = Lab::new() else { return };
    let _silent = bound(&lab.gateway, &format!("{NAME_SERVER}:53"));
    let _time = TimeServer::ahead(&lab.gateway.namespace, TIME_SERVER, 0);
    let options =
        DoctorOptions { ntp_servers: vec![TIME_SERVER.to_owned()], ..lab.options(&format!("https://{NAME}")) };
    let conf = format!("nameserver {NAME_SERVER}\noptions timeout:1 attempts:1\n");
    fs::write(&options.resolv_conf, conf).unwrap();
    let report = lab.diagnose(&options);
    let seen = format!("{NAME} can't be resolved: {NAME_SERVER}: no answer in time");
    let next = format!(
        "check that {NAME_SERVER} is the right name server (from {}), that it runs, and that UDP port 53 is open to it",
        lab.path("resolv.conf").display()
    );
    assert_cause(&report, &broken(Station::Dns, Code::ServerSilent, &seen, &next));
    let expected = [
        (Station::Dns, Verdict::Broken),
        (Station::Tls, Verdict::NotLookedAt),
        (Station::Service, Verdict::NotLookedAt),
    ];
    assert_eq!(unsound(&report), expected, "time needs no name");
}

#[test]
fn names_that_do_not_resolve_for_other_reasons() {
    let Some(lab) = Lab::new() else { return };
    let Some(_names) = lab.name_server() else { return };
    let options = lab.options("http://no.example.com:8090");
    let conf = options.resolv_conf.display().to_string();
    let report = lab.diagnose(&options);
    let seen = format!(
        "the name no.example.com does not exist: {NAME_SERVER} knows none of no.example.com., no.example.com.lab.example.com."
    );
    let next = format!("correct the host in the URL, or add it to the zone; the search list of {conf} may be wrong");
    assert_cause(&report, &broken(Station::Dns, Code::NoSuchName, &seen, &next));

    fs::write(&options.resolv_conf, "search lab.example.com\n").unwrap();
    let report = lab.diagnose(&options);
    let seen = format!("no.example.com can't be resolved: {conf} has no nameserver line");
    let next =
        format!("a name server comes from DHCP or the network configuration; add `nameserver ADDRESS` to {conf}");
    assert_eq!(report.station(Station::Dns), Some(&broken(Station::Dns, Code::NoNameServer, &seen, &next)));
}

#[test]
fn a_clock_two_years_off_is_named_as_what_ails_the_certificate() {
    let Some(lab) = Lab::new() else { return };
    let certificate = lab.certificate(700, 90);
    let Some(_service) = lab.tls_service(&certificate) else { return };
    let _time = TimeServer::ahead(&lab.gateway.namespace, TIME_SERVER, 730 * DAY_S + 3600);
    let options = DoctorOptions {
        http: HttpConfig { ca_cert: Some(certificate.ca.clone()), insecure: false, proxies: None },
        ntp_servers: vec![TIME_SERVER.to_owned()],
        ..lab.options(&format!("https://{SERVICE}"))
    };
    let report = lab.diagnose(&options);
    let seen = format!(
        "our clock is 730 days behind according to {TIME_SERVER}, so certificates look expired or not yet valid"
    );
    let next = "set the clock (`chronyc makestep`, or in the firmware setup), and check that chronyd can reach a server; \
                if it is wrong again after each start, replace the clock's battery";
    assert_cause(&report, &broken(Station::Time, Code::ClockBehind, &seen, next));
    let tls = report.station(Station::Tls).unwrap();
    let (seen, ours) = tls.seen.rsplit_once("now ").unwrap();
    assert_eq!(ours.len(), "2026-11-21 22:46:48Z".len(), "{ours}");
    let expected = format!(
        "the certificate of CN={NAME}, issued by CN=Lab CA, is not yet valid by our clock: valid from {} to {}, ",
        certificate.from, certificate.until
    );
    assert_eq!(seen, expected);
    let next = "set the clock: it is 730 days behind; at the right time the certificate is valid";
    assert_eq!((tls.verdict, tls.code), (Verdict::Broken, Code::CertificateNotYetValid));
    assert_eq!(tls.next.as_deref(), Some(next));
}

#[test]
fn proxies_that_do_not_work() {
    let Some(lab) = Lab::new() else { return };
    let Some(_service) = lab.nginx(8090, &plain_service()) else { return };
    let _guarded =
        Fake::saying(&lab.gateway, 3128, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
    let _stranger = Fake::saying(&lab.gateway, 22, "SSH-2.0-OpenSSH_9.2p1\r\n");
    let _refusing = Fake::saying(&lab.gateway, 3130, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    let without = format!("; {SERVICE}:8090 accepts connections without it: add {SERVICE} to NO_PROXY");
    for (proxy, code, seen, next) in [
        (
            "http://203.0.113.8:3129",
            Code::ProxyUnreachable,
            "http://203.0.113.8:3129 (HTTP_PROXY): 203.0.113.8:3129 refuses the connection",
            "correct host and port in HTTP_PROXY, or start the proxy",
        ),
        (
            "http://203.0.113.8:3128",
            Code::ProxyWantsPassword,
            "http://203.0.113.8:3128 (HTTP_PROXY) requires a user and a password (407), and none are set",
            "set them in HTTP_PROXY: http://USER:PASSWORD@203.0.113.8:3128, special characters as %XX",
        ),
        (
            "http://user:secret@203.0.113.8:3128",
            Code::ProxyWantsPassword,
            "http://203.0.113.8:3128 (HTTP_PROXY) rejects the user and password (407)",
            "correct them in HTTP_PROXY: http://USER:PASSWORD@203.0.113.8:3128, special characters as %XX",
        ),
        (
            "http://203.0.113.8:22",
            Code::NotAProxy,
            "http://203.0.113.8:22 (HTTP_PROXY) is not an HTTP proxy: it answers 'SSH-2.0-OpenSSH_9.2p1'",
            "correct host and port in HTTP_PROXY",
        ),
        (
            "http://203.0.113.8:3130",
            Code::ProxyRefuses,
            "http://203.0.113.8:3130 (HTTP_PROXY) refuses to connect to 203.0.113.7:8090 (403)",
            "make the proxy allow requests to 203.0.113.7:8090; if it is a web server and not a proxy, correct HTTP_PROXY",
        ),
    ] {
        let proxy = ProxyVariables::from_pairs(&[("HTTP_PROXY", proxy), ("NO_PROXY", "other.example.com")]);
        let options = DoctorOptions { proxy, ..lab.options(&format!("http://{SERVICE}:8090")) };
        let report = lab.diagnose(&options);
        assert_cause(&report, &broken(Station::Proxy, code, seen, &format!("{next}{without}")));
        assert!(!report.to_text(usize::MAX).contains("secret"));
    }
    for (list, excepted) in [("203.0.113.0/24", true), (" 203.0.113.7:8090", true), ("203.0.113.7:80", false)] {
        let proxy = ProxyVariables::from_pairs(&[("HTTP_PROXY", "http://203.0.113.8:3129"), ("NO_PROXY", list)]);
        let report = lab.diagnose(&DoctorOptions { proxy, ..lab.options(&format!("http://{SERVICE}:8090")) });
        assert_eq!(report.reachable, excepted, "{list}");
    }
    // A web server takes a request in absolute form for its own.
    for (variable, seen) in [
        ("HTTP_PROXY", "http://203.0.113.7:8090 (HTTP_PROXY) connects to 203.0.113.7:8090"),
        ("HTTPS_PROXY", "not needed: none is set"),
    ] {
        let proxy = ProxyVariables::from_pairs(&[(variable, "http://203.0.113.7:8090")]);
        let report = lab.diagnose(&DoctorOptions { proxy, ..lab.options(&format!("http://{SERVICE}:8090")) });
        assert!(report.reachable, "{}", report.to_text(usize::MAX));
        assert_eq!(report.station(Station::Proxy).unwrap().seen, seen);
    }
    let proxy = ProxyVariables::from_pairs(&[("HTTP_PROXY", "http://203.0.113.8:3129"), ("NO_PROXY", SERVICE)]);
    let report = lab.diagnose(&DoctorOptions { proxy, ..lab.options(&format!("http://{SERVICE}:8090")) });
    assert!(report.reachable);
    let seen = "not needed: NO_PROXY excludes 203.0.113.7 from HTTP_PROXY";
    assert_eq!(report.station(Station::Proxy).unwrap().seen, seen);
}

#[test]
fn a_proxy_that_works() {
    let Some(lab) = Lab::new() else { return };
    let certificate = lab.certificate(-1, 30);
    let Some(_service) = lab.tls_service(&certificate) else { return };
    let _proxy = Fake::proxy(&lab.gateway, 3128, &format!("{SERVICE}:443"));
    let options = DoctorOptions {
        proxy: ProxyVariables::from_pairs(&[("HTTPS_PROXY", "http://user:secret@203.0.113.8:3128")]),
        http: HttpConfig { ca_cert: Some(certificate.ca), insecure: false, proxies: None },
        ..lab.options(&format!("https://{SERVICE}"))
    };
    let report = lab.diagnose(&options);
    assert!(report.reachable);
    let seen = |station| report.station(station).unwrap().seen.as_str();
    assert_eq!(seen(Station::Proxy), "http://203.0.113.8:3128 (HTTPS_PROXY) connects to 203.0.113.7:443");
    let certificate = format!("certificate of CN={NAME}, issued by CN=Lab CA, valid until {}", certificate.until);
    assert_eq!(
        (seen(Station::Tls), seen(Station::Service)),
        (certificate.as_str(), "the service answers; its release is v2.40.0")
    );
    assert!(!format!("{options:?}").contains("secret"), "passwords are not logged");
}

#[test]
fn a_certificate_of_an_unknown_issuer() {
    let Some(lab) = Lab::new() else { return };
    let certificate = lab.certificate(-1, 30);
    let Some(_service) = lab.tls_service(&certificate) else { return };
    let options = lab.options(&format!("https://{SERVICE}"));
    let report = lab.diagnose(&options);
    let seen = format!("the certificate of CN={NAME} is signed by CN=Lab CA, which is not a trusted CA");
    let next = "pass the CA certificate of CN=Lab CA as --ca-cert FILE (PEM), or make the service send its full chain";
    assert_cause(&report, &broken(Station::Tls, Code::UnknownIssuer, &seen, next));

    let http = HttpConfig { ca_cert: Some(certificate.ca), insecure: false, proxies: None };
    let trusting = DoctorOptions { http: http.clone(), ..options.clone() };
    let report = lab.diagnose(&trusting);
    assert!(report.reachable, "with --ca-cert it is");
    assert_eq!(report.station(Station::Tls).unwrap().verdict, Verdict::Ok);

    let elsewhere = DoctorOptions { http, ..lab.options("https://203.0.113.9") };
    let report = lab.diagnose(&elsewhere);
    let seen = format!("the certificate of CN={NAME} is for {NAME}, {SERVICE}, not for 203.0.113.9");
    let next = "use a name from the certificate in the URL, or reissue the certificate with 203.0.113.9";
    assert_cause(&report, &broken(Station::Tls, Code::WrongName, &seen, next));
}

#[test]
fn others_in_the_services_place() {
    let Some(lab) = Lab::new() else { return };
    let pages = "server { listen 8090; return 302 https://login.example.com/; } server { listen 8091; return 503; }";
    let Some(_pages) = lab.nginx(8090, pages) else { return };
    for (url, station, code, seen) in [
        (
            "http://203.0.113.7:8090",
            Station::Service,
            Code::NotTheService,
            "203.0.113.7:8090 redirects (302, to 'https://login.example.com/'): a login page or a captive portal",
        ),
        (
            "http://203.0.113.7:8091",
            Station::Service,
            Code::Unavailable,
            "a load balancer answers 503 for http://203.0.113.7:8091: none of its servers responds",
        ),
        (
            "http://203.0.113.7:8092",
            Station::Service,
            Code::ConnectionRefused,
            "203.0.113.7:8092 refuses the connection",
        ),
        ("https://203.0.113.7:8090", Station::Tls, Code::NotTls, "203.0.113.7:8090 speaks plain HTTP, not TLS"),
    ] {
        let report = lab.diagnose(&lab.options(url));
        assert_eq!((report.reachable, report.cause), (false, Some(station)));
        let finding = report.station(station).unwrap();
        assert_eq!((finding.code, finding.seen.as_str()), (code, seen));
    }
}

#[test]
fn a_service_on_the_machine_itself_needs_no_network() {
    let Some(lab) = Lab::new() else { return };
    let Some(_service) = lab.nginx(8090, &plain_service()) else { return };
    lab.segment.unplug(&lab.gateway);
    let options = lab.options("http://127.0.0.1:8090");
    let report = lab.gateway.namespace.enter(|| diagnose(&options)).unwrap();
    println!("{}", report.to_text(usize::MAX));
    assert!(report.reachable);
    assert_eq!(unsound(&report), [(Station::Link, Verdict::Warn)]);
    let seen = "not needed: the service 127.0.0.1 is this machine itself";
    assert_eq!(report.station(Station::Gateway).unwrap().seen, seen);
    let seen = "not needed: the other side is this machine itself";
    assert_eq!(
        [Station::Address, Station::Duplicate].map(|station| &*report.station(station).unwrap().seen),
        [seen; 2]
    );
    assert_eq!(
        report.station(Station::Time).unwrap().seen,
        "right to about a second, according to the date of the service's answer"
    );
}

/// The network is in order and the machine has an address there, which another one holds too: that is not in the way of this service.
#[test]
fn other_stations_are_not_asked_about_a_service_on_the_machine_itself() {
    let Some(lab) = Lab::new() else { return };
    let Some(_service) = lab.nginx(8090, &plain_service()) else { return };
    let _other = lab.segment.host("other", OTHER_MAC, &["10.0.0.254/24"]);
    for host in ["127.0.0.1", "localhost", GATEWAY] {
        let options = lab.options(&format!("http://{host}:8090"));
        let report = lab.gateway.namespace.enter(|| diagnose(&options)).unwrap();
        let duplicate = report.station(Station::Duplicate).unwrap();
        let seen = "not needed: the other side is this machine itself";
        assert_eq!(
            (duplicate.verdict, duplicate.code, &*duplicate.seen),
            (Verdict::Ok, Code::NotNeeded, seen),
            "{host}"
        );
        assert_eq!((unsound(&report), report.reachable), (vec![], true), "{host}");
    }
}

#[test]
fn the_exit_status_says_whether_the_service_is_reached() {
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        netcheck: Netcheck,
    }
    let Some(lab) = Lab::new() else { return };
    let Some(_service) = lab.nginx(8090, &plain_service()) else { return };
    let status = |port: &str| {
        let url = format!("http://{SERVICE}:{port}");
        let arguments = ["netcheck", "doctor", "--json", "--chrony-conf", "/nonexistent", "--url", &url];
        let arguments = [&arguments[..], &["--timeout-s", "60"]].concat();
        let program = Program::parse_from(arguments);
        let outcome = lab.us.namespace.enter(|| program.netcheck.run().unwrap());
        let Outcome::Done(code) = outcome else { panic!("no check of a config") };
        code
    };
    assert_eq!((status("8090"), status("8092")), (ExitCode::SUCCESS, ExitCode::FAILURE));
}

#[test]
fn bad_arguments_are_reported() {
    let error = |options: &DoctorOptions| diagnose(options).unwrap_err().to_string();
    let text = "'ftp://host/' is not the URL of a service: expected http:// or https:// and a host";
    assert_eq!(error(&DoctorOptions::new("ftp://user:secret@host/")), text);
    let ca_cert = Some(Path::new("/nonexistent/ca.pem").to_owned());
    let options = DoctorOptions {
        http: HttpConfig { ca_cert, insecure: false, proxies: None },
        ..DoctorOptions::new("https://host")
    };
    assert_eq!(error(&options), "cannot read the CA bundle /nonexistent/ca.pem");
    let options = DoctorOptions { timeout: Duration::from_secs(61), ..DoctorOptions::new("https://host") };
    assert_eq!(error(&options), "the time limit is 61 s, but must be from 1 to 60");
}
