//! The client against a real libvirtd: its test driver, which needs no emulator, and QEMU.

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::StreamExt as _;
    use persys_libvirt::{
        AddressSource, Client, Code, Domain, Error, Groups, Heard, Hold, Off, Settings, State,
    };

    const PATIENCE: Duration = Duration::from_secs(20);

    fn client(uri: &str) -> Client {
        // On a host whose /dev/kvm cannot be used, libvirt examines QEMU anew for every machine.
        let act = Duration::from_mins(4);
        Client::new(Settings { uri: uri.to_owned(), act, ..Settings::default() })
    }

    /// A name nobody else uses.
    fn name(test: &str) -> String {
        format!("persys-live-{}-{test}", std::process::id())
    }

    fn xml(name: &str, kind: &str, os: &str, memory: u32) -> String {
        format!(
            "<domain type='{kind}'><name>{name}</name><memory unit='MiB'>{memory}</memory>\
             <vcpu>1</vcpu><os><type>{os}</type></os></domain>"
        )
    }

    async fn heard(
        changes: &mut futures::stream::BoxStream<'static, Heard>,
        domain: &Domain,
        event: i32,
    ) {
        let wanted = async {
            loop {
                match changes.next().await {
                    Some(Heard::Change(change))
                        if change.domain.uuid == domain.uuid && change.event == event =>
                    {
                        return;
                    }
                    Some(_) => {}
                    None => panic!("it goes on for ever"),
                }
            }
        };
        let told = tokio::time::timeout(PATIENCE, wanted).await;
        assert!(told.is_ok(), "event {event} of {} is not told", domain.name);
    }

    #[tokio::test]
    async fn the_test_driver_answers_every_question() {
        let session = client("test:///default").session().await.unwrap();
        assert!(!session.lib_version().await.unwrap().is_empty());
        assert!(!session.hostname().await.unwrap().is_empty());
        assert!(session.capabilities().await.unwrap().contains("<capabilities>"));
        let all = session.domains().await.unwrap();
        let test = all.iter().find(|domain| domain.name == "test").unwrap();
        assert_eq!(session.domain("test").await.unwrap().as_ref(), Some(test));
        assert_eq!(session.domain_by_uuid(&test.uuid).await.unwrap().as_ref(), Some(test));
        assert_eq!(session.state(test).await.unwrap(), State::Running);
        assert!(session.xml(test, true).await.unwrap().contains("<name>test</name>"));
        assert_eq!(session.domain("nobody").await.unwrap(), None);

        let pool = session.pool("default-pool").await.unwrap().unwrap();
        assert!(session.pools().await.unwrap().contains(&pool));
        assert!(session.pool_xml(&pool).await.unwrap().contains("<target>"));
        let room = session.pool_room(&pool).await.unwrap();
        assert!(room.active && room.capacity > room.allocation, "{room:?}");
        let volume = "<volume><name>v</name><capacity unit='MiB'>8</capacity></volume>";
        let volume = session.create_volume(&pool, volume).await.unwrap();
        assert_eq!(session.volume(&pool, "v").await.unwrap().as_ref(), Some(&volume));
        assert_eq!(session.volume_room(&volume).await.unwrap().capacity, 8 << 20);
        session.delete_volume(&volume).await.unwrap();
        assert_eq!(session.volume(&pool, "v").await.unwrap(), None);

        let network = session.network("default").await.unwrap().unwrap();
        assert!(session.network_is_active(&network).await.unwrap());
        assert!(session.network_xml(&network).await.unwrap().contains("<ip "));
        assert_eq!(session.network("nowhere").await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_life_in_the_test_driver_is_told_as_it_happens() {
        let client = client("test:///default");
        let mut changes = client.changes();
        assert_eq!(changes.next().await, Some(Heard::Everything));
        let session = client.session().await.unwrap();
        let name = name("life");
        let domain = session.define(&xml(&name, "test", "hvm", 64)).await.unwrap();
        heard(&mut changes, &domain, 0).await;
        assert!(!session.autostart(&domain).await.unwrap());
        session.set_autostart(&domain, true).await.unwrap();
        assert!(session.autostart(&domain).await.unwrap());
        let running = session.start(&domain).await.unwrap();
        assert!(running.id > 0);
        heard(&mut changes, &domain, 2).await;
        session.suspend(&domain).await.unwrap();
        assert_eq!(session.state(&domain).await.unwrap(), State::Paused(Hold::User));
        session.resume(&domain).await.unwrap();
        let again = session.start(&domain).await.unwrap_err();
        assert!(again.refusal().is_some(), "{again}");
        session.destroy(&domain).await.unwrap();
        heard(&mut changes, &domain, 5).await;
        assert_eq!(session.state(&domain).await.unwrap(), State::Off(Off::Destroyed));
        session.undefine(&domain).await.unwrap();
        heard(&mut changes, &domain, 1).await;
        assert_eq!(session.domain(&name).await.unwrap(), None);
        let gone = session.undefine(&domain).await.unwrap_err();
        assert!(gone.is_not_found(), "{gone}");
    }

    #[tokio::test]
    async fn what_the_schema_does_not_know_is_refused() {
        let session = client("test:///default").session().await.unwrap();
        let broken = session.define("<domain").await.unwrap_err();
        assert!(broken.refusal().is_some(), "{broken}");
        let strange = xml(&name("strange"), "test", "hvm", 64).replace("<os>", "<surprise/><os>");
        assert!(session.define(&strange).await.unwrap_err().refusal().is_some());
        let foreign = client("nothing:///here").session().await.unwrap_err();
        assert!(foreign.refusal().is_some(), "{foreign}");
    }

    #[tokio::test]
    async fn qemu_runs_a_machine_without_a_disk() {
        let client = client("qemu:///system");
        let mut changes = client.changes();
        assert_eq!(changes.next().await, Some(Heard::Everything));
        let session = client.session().await.unwrap();
        assert!(session.version().await.unwrap().contains('.'));
        let name = name("qemu");
        let text = xml(&name, "qemu", "hvm", 32).replace(
            "</domain>",
            "<devices><serial type='pty'/><console type='pty'/>\
             <video><model type='vga'/></video></devices></domain>",
        );
        let domain = session.define(&text).await.unwrap();
        let states = session.stats(Groups::STATE).await.unwrap();
        let ours = states.iter().find(|stats| stats.domain.uuid == domain.uuid).unwrap();
        assert_eq!(ours.state(), Some(State::Off(Off::Unknown)), "never started");
        session.start(&domain).await.unwrap();
        heard(&mut changes, &domain, 2).await;
        assert_eq!(session.state(&domain).await.unwrap(), State::Running);
        let used = session.stats(Groups::USAGE).await.unwrap();
        let ours = used.iter().find(|stats| stats.domain.uuid == domain.uuid).unwrap();
        assert!(ours.natural("cpu.time").unwrap() > 0, "{ours:?}");
        assert_eq!(ours.natural("balloon.maximum"), Some(32 << 10));
        assert_eq!(session.cards(&domain, AddressSource::Lease).await.unwrap(), []);
        let silent = session.cards(&domain, AddressSource::Agent).await.unwrap_err();
        assert!(silent.refusal().is_some(), "it has no agent: {silent}");
        let silent = session.agent(&domain, r#"{"execute":"guest-ping"}"#, 1).await.unwrap_err();
        assert!(silent.refusal().is_some_and(|no| no.code != Code::NO_SUPPORT), "{silent}");

        let (kind, picture) = session.screenshot(&domain).await.unwrap();
        let picture = picture.rest(32 << 20, PATIENCE).await.unwrap();
        assert!(kind.is_some_and(|kind| kind.starts_with("image/")));
        assert!(picture.len() > 1000, "{} bytes", picture.len());
        let mut console = session.console(&domain, false).await.unwrap();
        console.send(b"\r").await.unwrap();
        let taken = session.console(&domain, false).await.unwrap_err();
        assert!(taken.refusal().is_some(), "{taken}");
        drop(session.console(&domain, true).await.unwrap());
        let lost = tokio::time::timeout(PATIENCE, async {
            while let Ok(Some(_)) = console.next().await {}
        });
        assert!(lost.await.is_ok(), "the first one lost it");

        session.shutdown(&domain).await.unwrap();
        session.destroy(&domain).await.unwrap();
        heard(&mut changes, &domain, 5).await;
        assert_eq!(session.state(&domain).await.unwrap(), State::Off(Off::Destroyed));
        assert!(session.destroy(&domain).await.unwrap_err().is_not_so());
        session.undefine(&domain).await.unwrap();
        assert_eq!(session.domain(&name).await.unwrap(), None);
    }

    #[tokio::test]
    async fn without_a_socket_there_is_no_libvirt() {
        let folder = tempfile::tempdir().unwrap();
        let sockets =
            vec![folder.path().join("libvirt-sock"), folder.path().join("virtqemud-sock")];
        let client = Client::new(Settings { sockets: sockets.clone(), ..Settings::default() });
        let error = client.session().await.unwrap_err();
        assert!(matches!(error, Error::Absent { .. }), "{error}");
        // A socket that nobody listens at is an outage, not an absence.
        drop(std::os::unix::net::UnixListener::bind(&sockets[1]).unwrap());
        let error = client.session().await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    }
}
