//! A Compose stack in the dashboard: a terminal in each of its containers, its ports, and its volumes when
//! it is deleted.

use std::net::{Ipv4Addr, TcpListener};

use persys_browser::house::{ADMIN, House};
use persys_browser::looks::assert_sound;
use persys_browser::tab::{Screen, Tab};
use serde_json::json;

const STACK: &str = "shop";

fn file(port: u16) -> String {
    format!(
        "services:
  db:
    image: persys-test/busybox:1
    command: sh -c 'trap \"exit 0\" TERM; echo kept > /data/word; while true; do sleep 0.2; done'
    volumes: ['data:/data']
    ports: ['{port}:80']
  web:
    image: persys-test/busybox:1
    command: sh -c 'trap \"exit 0\" TERM; while true; do sleep 0.2; done'
    scale: 2
    depends_on: [db]
volumes:
  data: {{}}
"
    )
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

async fn apply(tab: &Tab, port: u16) {
    tab.go_within("#/apply").await;
    tab.fill("#name", STACK).await;
    tab.fill("#manifest", &file(port)).await;
    tab.click_on("form.apply button[type=submit]").await;
    tab.sees("h1", STACK).await;
    tab.sees(".head .badge", "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_opens_each_container_of_a_stack_and_deletes_it_without_and_with_its_volume() {
    let house = House::build().await;
    let tab = Tab::open().await;
    tab.on(Screen::LAPTOP).await;
    tab.prefers("light").await;
    tab.go(&house.link(ADMIN)).await;
    tab.sees(".connection", "Live").await;
    let port = free_port();
    apply(&tab, port).await;

    sees_its_ports(&tab, port).await;
    types_in_each_container(&house, &tab).await;
    sizes_the_terminal(&tab).await;
    deletes_and_keeps_the_volume(&house, &tab).await;
    apply(&tab, port).await;
    deletes_the_volume_too(&house, &tab).await;
    let complaints = tab.complaints().await;
    assert!(complaints.is_empty(), "{complaints:#?}");
    tab.close().await;
    house.leave().await;
}

async fn sees_its_ports(tab: &Tab, port: u16) {
    tab.sees(".pairs", &format!("{port}/tcp")).await;
    tab.sees(".pairs", "web-2 running").await;
    let text = tab.run("return document.querySelector('main').textContent").await;
    let text = text.as_str().unwrap_or_default();
    for word in ["undefined", "NaN", "null", "[object"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert_sound(tab, "stack").await;
    tab.keep("stack").await;
}

/// The service and the container are chosen; the name of the host tells which it is.
async fn types_in_each_container(house: &House, tab: &Tab) {
    tab.press("Terminal").await;
    let options = "return [...document.querySelectorAll('#service option')].map((one) => one.value).join(' ') === 'db web-1 web-2'";
    tab.until(options, "all containers can be chosen").await;
    for (chosen, service, number) in
        [("db", "db", "1"), ("web-2", "web", "2"), ("web-1", "web", "1")]
    {
        tab.select("#service", chosen).await;
        tab.sees(".log-state", "connected").await;
        let label = format!("label=com.docker.compose.service={service}");
        let nth = format!("label=com.docker.compose.container-number={number}");
        let ids = house.docker("ps -q", &["--filter", &label, "--filter", &nth]);
        let [id] = ids.as_slice() else { panic!("{ids:?}") };
        tab.types("echo this is $(hostname)").await;
        tab.enters().await;
        tab.sees(".paper", &format!("this is {id}")).await;
    }
    let address = tab.run("return location.hash").await;
    assert_eq!(address, json!(format!("#/workloads/{STACK}/terminal?service=web-1")));
    assert_sound(tab, "stack-terminal").await;
    tab.keep("stack-terminal").await;
}

/// The program inside knows the size of the page at once, and again when it changes.
async fn sizes_the_terminal(tab: &Tab) {
    let mut before = String::new();
    for (screen, enough) in [(Screen::LAPTOP, 100), (Screen::PHONE, 30)] {
        tab.on(screen).await;
        let sized = format!(
            "const {{ columns }} = document.querySelector('.terminal').dataset; return columns >= {enough} && columns < {}",
            enough * 2
        );
        tab.until(&sized, "the terminal is as wide as the page").await;
        let said = tab.run("const { rows, columns } = document.querySelector('.terminal').dataset; return `${rows} ${columns}`").await;
        let said = said.as_str().unwrap_or_default().to_owned();
        assert_ne!(said, before);
        tab.run("document.querySelector('textarea.keys').focus()").await;
        tab.types("echo size $(stty size)").await;
        tab.enters().await;
        tab.sees(".paper", &format!("size {said}")).await;
        before = said;
    }
    tab.on(Screen::LAPTOP).await;
    // One that is opened anew is never of another size than the page, not even at first.
    tab.go_within(&format!("#/workloads/{STACK}")).await;
    tab.sees(".why-summary", STACK).await;
    tab.press("Terminal").await;
    tab.sees(".log-state", "connected").await;
    tab.types("echo size $(stty size)").await;
    tab.enters().await;
    let said = tab.run("const { rows, columns } = document.querySelector('.terminal').dataset; return `${rows} ${columns}`").await;
    tab.sees(".paper", &format!("size {}", said.as_str().unwrap_or_default())).await;
}

async fn asks_to_delete(tab: &Tab) {
    tab.go_within(&format!("#/workloads/{STACK}")).await;
    tab.sees("h1", STACK).await;
    tab.press("Delete").await;
    tab.sees("dialog .goes", "the containers and networks of the stack").await;
    tab.sees("dialog .stays", "shop.data").await;
}

async fn confirms(house: &House, tab: &Tab) {
    tab.fill("dialog input[name=confirm]", STACK).await;
    tab.click_on("dialog button.danger").await;
    tab.until("return location.hash === '#/workloads'", "the list is shown").await;
    tab.sees(".empty", "There are no workloads").await;
    assert_eq!(house.docker("ps -aq", &[]), Vec::<String>::new());
}

async fn deletes_and_keeps_the_volume(house: &House, tab: &Tab) {
    asks_to_delete(tab).await;
    assert_sound(tab, "delete").await;
    tab.keep("delete-keeps").await;
    confirms(house, tab).await;
    assert_eq!(house.docker("volume ls -q", &[]).len(), 1);
    tab.go_within("#/disks").await;
    tab.sees("td .name", "shop.data").await;
    tab.sees("td .badge", "Retained").await;
    tab.keep("disk-kept").await;
}

async fn deletes_the_volume_too(house: &House, tab: &Tab) {
    asks_to_delete(tab).await;
    tab.click_on("dialog input[name=option]").await;
    tab.sees("dialog .goes", "shop.data, with its data").await;
    tab.sees("dialog .stays", "nothing").await;
    tab.keep("delete-with-volumes").await;
    confirms(house, tab).await;
    tab.go_within("#/disks").await;
    tab.sees(".empty", "There are no disks").await;
    assert_eq!(house.docker("volume ls -q", &[]), Vec::<String>::new());
}
