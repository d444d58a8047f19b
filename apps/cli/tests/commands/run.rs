//! `run`: until it runs, cannot, or will not.

use crate::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn a_container_runs_and_its_address_is_told() {
    let rig = Rig::start().await;
    let told = rig.types("run nginx -p 8080:80 -e A=1 -e COLOUR --cpu 100m --memory 64m").await;
    let told = told.ended(0);
    assert_eq!(
        told.out,
        "nginx runs on node n1\n  http://127.0.0.1:8080\nnext:\n  persys logs -f nginx\n  persys get nginx\n"
    );
    let lines: Vec<&str> = told.err.lines().collect();
    assert_eq!(lines.first(), Some(&"note: sim: nothing real runs"));
    assert!(told.err.contains("Z  nginx: placed on node n1; fetching and starting it"), "{told:?}");
    assert!(told.err.contains("Z  nginx: started on node n1"), "{told:?}");
    // What was given is what is kept, and secret values are not shown unasked.
    let shown = rig.types("get nginx -o json").await.ended(0).json();
    let container = &shown["spec"]["container"];
    assert_eq!(container["ports"][0]["host_port"], 8080);
    assert_eq!(container["env"]["COLOUR"], "***");
    assert_eq!(shown["spec"]["resources"]["cpu_millicores"], 100);
    let shown = rig.types("get nginx --secrets -o json").await.ended(0).json();
    assert_eq!(shown["spec"]["container"]["env"]["COLOUR"], "red");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_as_json_and_detached() {
    let rig = Rig::start().await;
    let told = rig.types("run web --name w1 -p 8081:80 -o json").await.ended(0);
    let json = told.json();
    assert_eq!(json["workload"]["status"], "Running");
    assert_eq!(json["addresses"][0], "127.0.0.1:8081/tcp");
    let told = rig.types("run web --name w2 -d").await.ended(0);
    assert_eq!(told.out, "w2 is accepted\nnext:\n  persys get w2 --watch\n");
    rig.until("get w2 -o json", |told| told.json()["workload"]["status"] == "Running").await;
    let told = rig.types("run exit:0 --name once").await.ended(0);
    assert!(told.out.starts_with("once ran to its end on node n1\n"), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_room_now_ends_with_2_and_why() {
    let rig = Rig::start().await;
    rig.types("run web --name first -p 18080:80").await.ended(0);
    let told = rig.types("run web --name second -p 18080:80").await.ended(2);
    assert!(told.err.contains("error: second could not be placed\n"), "{told:?}");
    assert!(!told.err.contains("warning: "), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_node_could_ever_hold_ends_with_5_and_a_warning() {
    let rig = Rig::start().await;
    let told = rig.types("run web --name big --cpu 4000").await.ended(5);
    let warned =
        "warning: big: it can never run on the one node of this cluster: it asks for 4000000m";
    assert!(told.err.contains(warned), "{told:?}");
    assert!(told.err.contains("error: big could not be placed\n"), "{told:?}");
    assert!(told.err.contains("placed as soon as there is room"), "{told:?}");
    assert!(told.err.contains("  n1: too little cpu: "), "{told:?}");
    assert!(told.err.contains("next:\n  persys "), "{told:?}");
    let told = rig.types("why big").await.ended(0);
    assert!(told.out.contains("nodes:\n  n1: too little cpu: "), "{told:?}");
    let json = rig.types("why big -o json").await.ended(0).json();
    assert_eq!(json["refusals"][0]["nodes"], 1);
    let told = rig.types("run web --name far --constraint zone=b").await.ended(5);
    assert!(told.err.contains("none meets the constraint zone"), "{told:?}");
    let told = rig.types("run web --name later --cpu 4000 --detach").await.ended(5);
    assert!(told.err.contains("warning: later: "), "{told:?}");
    assert!(told.out.starts_with("later is accepted\n"), "{told:?}");
    let json = rig.types("get later -o json").await.ended(0).json();
    assert_eq!(json["workload"]["status"], "Pending", "it is kept");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_ends_with_3_and_what_is_known_of_it() {
    let rig = Rig::start().await;
    let told = rig.types("run fail:IMAGE_NOT_FOUND --name gone").await.ended(3);
    assert!(told.err.contains("error: gone does not become healthy\n"), "{told:?}");
    assert!(told.err.contains("IMAGE_NOT_FOUND"), "{told:?}");
    assert!(told.err.contains("persys why gone"), "{told:?}");
    let told = rig.types("run exit:7 --name crash").await.ended(3);
    assert!(told.err.contains('7'), "the exit code is told: {told:?}");
    let told = rig.types("run exit:1 --name loop --restart always").await.ended(3);
    assert!(told.err.contains("error: loop does not become healthy"), "{told:?}");
    let told = rig.types("run fail:RUNTIME_ERROR --name refused").await.ended(3);
    assert!(told.err.contains("RUNTIME_ERROR"), "{told:?}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_wait_goes_on_in_the_background() {
    let rig = Rig::start().await;
    rig.types("run web --name first -p 18081:80").await.ended(0);
    let world = rig.world("");
    let typing = crate::rig::tell(&world, "run web --name big -p 18081:80");
    let interrupt = async {
        while !world.remarked().contains("big: ") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        world.interrupt();
    };
    let (told, ()) = tokio::join!(typing, interrupt);
    let told = told.ended(130);
    assert!(
        told.err.contains("big goes on in the background\nnext: persys get big --watch\n"),
        "{told:?}"
    );
    rig.types("get big").await.ended(0);
    rig.stop().await;
}
