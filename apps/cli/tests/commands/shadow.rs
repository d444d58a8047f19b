//! A namespace in shadow, as an operator sees it.

use crate::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_enters_and_leaves_shadow() {
    let rig = Rig::start().await;
    rig.types("namespace create shop --allow-devices --shadow").await.ended(0);
    let told = rig.types("namespace list").await.ended(0);
    assert!(told.out.contains("shop       yes     devices"), "{told:?}");
    rig.types("run web --name web --namespace shop -p 8081:80").await.ended(0);
    let told = rig.types("list").await.ended(0);
    assert!(told.out.contains("web  container  Running (shadow)  n1"), "{told:?}");
    let told = rig.types("get web").await.ended(0);
    assert!(told.out.contains("status      Running (shadow)"), "{told:?}");
    let told = rig.types("summary").await.ended(0);
    assert!(told.out.contains("shadow     1"), "{told:?}");
    let told = rig.types("why web").await.ended(0);
    let held =
        "shadow: port 8081/tcp is not published, name web.workloads.persys.local is not announced";
    assert!(told.out.contains(held), "{told:?}");

    // What would be written on the node is refused by name, and nothing is changed by it.
    let told = rig.types("run db --name db --namespace shop -v /srv/data:/data").await;
    assert!(told.code != 0 && told.err.contains("shadow: /srv/data would be written"), "{told:?}");

    // Those who say nothing about shadow leave it as it is.
    rig.types("namespace set shop --allow-privileged").await.ended(0);
    let told = rig.types("namespace list").await.ended(0);
    assert!(told.out.contains("shop       yes     privileged"), "{told:?}");
    rig.types("namespace shadow shop off").await.ended(0);
    let told = rig.types("namespace list").await.ended(0);
    assert!(told.out.contains("shop       no      privileged"), "{told:?}");
    rig.until("list -o json", |told| {
        let web = &told.json()[0];
        web["status"] == "Running" && web["shadow"] != true
    })
    .await;
    let told = rig.types("events --type ShadowLeft").await.ended(0);
    assert!(told.out.contains("namespace shop left shadow; workloads in it: 1"), "{told:?}");
    let told = rig.types("audit list").await.ended(0);
    assert!(told.out.contains("namespace/shop"), "{told:?}");

    // The default namespace has no record that could be changed.
    let told = rig.types("namespace shadow default on").await;
    assert!(told.code != 0 && told.err.contains("has no record"), "{told:?}");
    rig.stop().await;
}
