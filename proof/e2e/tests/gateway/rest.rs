//! The interface for programs: the routes existing clients use, and those that came after.

use serde_json::{Value, json};

use super::{Site, container, told};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_workload_is_asked_for_and_seen_to_run_by_the_routes_existing_clients_use() {
    let site = Site::start().await;
    let (status, nodes) = site.get("/nodes").await;
    assert_eq!((status, &nodes["nodes"][0]["node_id"]), (200, &json!("n1")));
    assert!(nodes["nodes"][0]["total_memory_mb"].is_string(), "64-bit numbers are text: {nodes}");
    let (status, said) = site.post("/workloads/schedule", &container("web")).await;
    assert_eq!((status, said), (200, json!({"success": true})));
    let web = site.until("/workloads/web", |shown| shown["workload"]["status"] == "Running").await;
    assert_eq!(web["workload"]["assigned_node_id"], "n1");
    for path in ["/workloads", "/list", "/clusters/stack/workloads", "/workloads?status=running"] {
        let (status, list) = site.get(path).await;
        assert_eq!((status, &list["workloads"][0]["workload_id"]), (200, &json!("web")), "{path}");
    }
    let (_, summary) = site.get("/cluster/metrics").await;
    assert_eq!((&summary["total_nodes"], &summary["running_workloads"]), (&json!(1), &json!(1)));
    let (_, clusters) = site.get("/clusters").await;
    assert_eq!(clusters["default_cluster_id"], "stack");
    assert_eq!(clusters["clusters"][0]["healthy_schedulers"], 1, "{clusters}");

    // What the contract refuses inside its answer stays there; what is not there is not found.
    let (status, said) = site
        .post("/workloads/schedule", &json!({"workload_id": "bad", "spec": {"type": "container"}}))
        .await;
    assert_eq!((status, &said["failure_reason"]), (200, &json!("INVALID_SPEC")), "{said}");
    let (status, problem) = site.get("/workloads/nobody").await;
    assert_eq!((status, &problem["code"]), (404, &json!("not_found")));
    assert!(problem["error"].as_str().unwrap().contains("nobody"));
    let (status, _) = site.get("/clusters/nowhere/nodes").await;
    assert_eq!(status, 404);

    let deleted = site.http.delete(site.url("/workloads/web")).send().await.unwrap();
    assert_eq!(told(deleted).await, (200, json!({"success": true})));
    site.until("/workloads", |shown| shown["workloads"].as_array().is_none_or(Vec::is_empty)).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_come_in_pages_and_what_did_not_change_is_not_sent_again() {
    let site = Site::start().await;
    for nth in 0..5 {
        let (status, said) = site.post("/v1/workloads", &container(&format!("w{nth}"))).await;
        assert_eq!((status, said), (200, json!({"success": true})));
    }
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let (_, page) = site.get(&format!("/v1/workloads?limit=2&page_token={token}")).await;
        let list = page["workloads"].as_array().unwrap();
        assert!(list.len() <= 2);
        seen.extend(list.iter().map(|one| one["workload_id"].as_str().unwrap().to_owned()));
        match page["next_page_token"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, ["w0", "w1", "w2", "w3", "w4"]);
    site.until("/v1/workloads?status=Running", |page| {
        page["workloads"].as_array().is_some_and(|list| list.len() == 5)
    })
    .await;

    let first = site.http.get(site.url("/v1/disks")).send().await.unwrap();
    let tag = first.headers()["etag"].clone();
    let again = site.http.get(site.url("/v1/disks")).header("if-none-match", &tag);
    assert_eq!(again.send().await.unwrap().status().as_u16(), 304);
    let other = site.http.get(site.url("/v1/disks")).header("if-none-match", "\"other\"");
    assert_eq!(other.send().await.unwrap().status().as_u16(), 200);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_key_does_nothing_twice() {
    let site = Site::start().await;
    let send = |body: Value| {
        let request = site.http.post(site.url("/v1/workloads")).json(&body);
        request.header("idempotency-key", "k1").send()
    };
    let first = send(container("web")).await.unwrap();
    assert_eq!((first.status().as_u16(), first.headers().get("idempotency-replayed")), (200, None));
    let again = send(container("web")).await.unwrap();
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(told(again).await, (200, json!({"success": true})));
    let (status, problem) = told(send(container("other")).await.unwrap()).await;
    assert_eq!((status, &problem["code"]), (422, &json!("key_reused")));
    let (status, _) = site.get("/v1/workloads/other").await;
    assert_eq!(status, 404, "nothing was done");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_no_is_a_problem_with_a_code_a_sentence_and_a_next_step() {
    let site = Site::start().await;
    let bad =
        json!({"workload_id": "x", "spec": {"type": "container", "container": {"imagee": 1}}});
    let impossible =
        json!({"workload_id": "../x", "spec": {"type": "container", "container": {"image": "a"}}});
    let nothing = json!({});
    for (verb, path, body, status, code) in [
        ("GET", "/v1/workloads/none", None, 404, "not_found"),
        ("GET", "/v1/nowhere", None, 404, "no_route"),
        ("PATCH", "/v1/workloads", None, 405, "method_not_allowed"),
        ("GET", "/v1/workloads?limit=0", None, 400, "bad_request"),
        ("GET", "/v1/workloads?stauts=x", None, 400, "bad_request"),
        ("GET", "/v1/events?limit=many", None, 400, "bad_request"),
        ("POST", "/v1/workloads", Some(&bad), 400, "bad_request"),
        ("POST", "/v1/workloads", Some(&impossible), 422, "invalid_spec"),
        ("POST", "/v1/workloads", Some(&nothing), 400, "invalid_argument"),
        ("POST", "/v1/workloads/none/retry", None, 409, "not_accepted"),
        ("POST", "/v1/workloads/none/restart", None, 404, "not_found"),
        ("GET", "/v1/workloads?cluster_id=none", None, 404, "not_found"),
    ] {
        let request = site.http.request(verb.parse().unwrap(), site.url(path));
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/problem+json", "{verb} {path}");
        let (found, problem) = told(response).await;
        assert_eq!((found, &problem["code"]), (status, &json!(code)), "{verb} {path}: {problem}");
        for key in ["detail", "next_step", "error", "title"] {
            assert!(problem[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {problem}");
        }
    }
    let raw = site.http.post(site.url("/v1/workloads")).body("{\"workload_id\":\"a\"}");
    assert_eq!(raw.send().await.unwrap().status().as_u16(), 415, "a form of another site");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_describes_itself_and_carries_its_headers() {
    let site = Site::start().await;
    let (status, document) = site.get("/openapi.json").await;
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    let response = site.http.get(site.url("/docs")).send().await.unwrap();
    for (name, wanted) in [
        ("x-service-name", "persys-gateway"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
    ] {
        assert_eq!(response.headers()[name], wanted);
    }
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(response.text().await.unwrap().contains("/v1/workloads"));
    let (status, metrics) = site.get("/metrics").await;
    let text = metrics.as_str().unwrap();
    assert_eq!(status, 200);
    assert!(
        text.contains("persys_gateway_requests_total{method=\"GET\",url=\"/docs\",code=\"200\"} 1")
    );
    assert!(
        text.contains("persys_gateway_scheduler_healthy{cluster=\"stack\",scheduler=\"s1\"} 1")
    );
    site.stop().await;
}

fn wanted(id: &str, part: &Value) -> Value {
    let mut whole = container(id);
    for (key, value) in part.as_object().unwrap() {
        whole["spec"][key] = value.clone();
    }
    whole
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_says_what_would_happen_and_then_it_happens() {
    let site = Site::start().await;
    site.post("/v1/workloads", &container("there")).await;
    site.until("/v1/workloads/there", |shown| shown["workload"]["status"] == "Running").await;
    let head = site.stack.head().await;
    let huge = json!({"resources": {"cpu_millicores": "100", "memory_mb": 60_000_000}});
    let mut bad = container("bad");
    bad["spec"]["container"] = json!({"image": "a b", "env": {"A=B": "c"}});
    let stopped = json!({"workload_id": "there", "desired_state": "Stopped"});
    let gone = json!({"workload_id": "nobody", "desired_state": "Stopped"});
    let cases = [
        (container("new"), "create", "n1"),
        (wanted("huge", &huge), "create", ""),
        (container("there"), "nothing", ""),
        (
            wanted("there", &json!({"resources": {"cpu_millicores": "50", "memory_mb": 32}})),
            "update",
            "n1",
        ),
        (stopped, "stop", ""),
        (bad, "", ""),
        (gone, "", ""),
    ];
    let mut said = Vec::new();
    for (body, action, node) in &cases {
        let (status, told) = site.post("/v1/check", body).await;
        assert_eq!(status, 200, "{told}");
        let text = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
        assert_eq!((text("action"), text("node_id")), ((*action).into(), (*node).into()), "{told}");
        assert_eq!(told["accepted"] == json!(true), !action.is_empty(), "{told}");
        said.push(told);
    }
    assert_eq!(site.stack.head().await, head, "nothing was stored");
    // Whoever waits is told why, and what would help; every fault is named with its path.
    assert!(said[1]["refusals"][0]["reason"].as_str().unwrap().contains("memory"), "{}", said[1]);
    assert!(said[1]["suggestions"].as_array().is_some_and(|all| !all.is_empty()), "{}", said[1]);
    let paths: Vec<_> =
        said[5]["faults"].as_array().unwrap().iter().map(|one| &one["path"]).collect();
    assert_eq!(paths.len(), 2, "{}", said[5]);
    assert!(said[6]["refusal"].as_str().unwrap().contains("nobody"), "{}", said[6]);
    // What was said is what happens.
    for (nth, (body, ..)) in cases.iter().enumerate() {
        let (status, done) = site.post("/v1/workloads", body).await;
        assert_eq!(status == 200, said[nth]["accepted"] == json!(true), "{body}: {done}");
    }
    site.until("/v1/workloads/new", |shown| shown["workload"]["assigned_node_id"] == "n1").await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_enters_and_leaves_shadow_by_its_route() {
    let site = Site::start().await;
    let put = async |body: Value| {
        let put = site.http.put(site.url("/v1/namespaces/shop")).json(&body);
        told(put.send().await.unwrap()).await
    };
    let made = json!({"namespace": {"host_paths": ["/srv"], "shadow": true}});
    assert_eq!(put(made).await.0, 200);
    let mut wanted = container("web");
    wanted["spec"]["metadata"] = json!({"persys.io/namespace": "shop"});
    let (status, said) = site.post("/v1/workloads", &wanted).await;
    assert_eq!((status, said), (200, json!({"success": true})));
    let runs = |shown: &Value| shown["workload"]["status"] == "Running";
    let web = site.until("/v1/workloads/web", |shown| runs(shown)).await;
    assert_eq!(web["workload"]["shadow"], true, "{web}");
    // Without a word about it, it stays in shadow; and shadow alone changes nothing else.
    assert_eq!(put(json!({"namespace": {"host_paths": ["/srv", "/data"]}})).await.0, 200);
    assert_eq!(put(json!({"namespace": {"shadow": false}, "only_shadow": true})).await.0, 200);
    let seen = |shown: &Value| runs(shown) && shown["workload"]["shadow"] != true;
    site.until("/v1/workloads/web", |shown| seen(shown)).await;
    let (_, list) = site.get("/v1/namespaces").await;
    let all = list["namespaces"].as_array().unwrap();
    let shop = all.iter().find(|one| one["name"] == "shop").unwrap();
    assert_eq!(shop["host_paths"], json!(["/data", "/srv"]), "{shop}");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_audit_and_joining_have_their_routes_and_no_value_is_told() {
    let site = Site::start().await;
    let put = site.http.put(site.url("/v1/secrets/db")).json(&json!({"value": "aHVudGVyMg=="}));
    let (status, set) = told(put.send().await.unwrap()).await;
    assert_eq!((status, &set["secret"]["name"]), (200, &json!("db")), "{set}");
    let (status, list) = site.get("/v1/secrets?namespace=*").await;
    assert_eq!((status, &list["secrets"][0]["name"]), (200, &json!("db")), "{list}");
    let (_, one) = site.get("/v1/secrets/db").await;
    for shown in [&set, &list, &one] {
        let text = shown.to_string();
        assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    }
    let (status, log) = site.get("/v1/audit?object=secret/default/db").await;
    assert_eq!(status, 200, "{log}");
    let (status, log) = site.get("/v1/audit?limit=10").await;
    assert!(status == 200 && log.to_string().contains("db"), "{log}");
    let put = site.http.put(site.url("/v1/secrets/other")).json(&json!({"value": "eA=="}));
    assert_eq!(told(put.send().await.unwrap()).await.0, 200);
    let (_, newest) = site.get("/v1/audit?limit=1").await;
    let (newest, token) = (&newest["records"], newest["next_page_token"].as_str().unwrap());
    let (status, older) = site.get(&format!("/v1/audit?limit=1&page_token={token}")).await;
    assert_eq!((status, older["records"].as_array().map(Vec::len)), (200, Some(1)), "{older}");
    assert_ne!(newest, &older["records"], "the page before is another");
    assert_eq!(site.get("/v1/audit?page_token=soon").await.0, 400);
    let (status, whole) = site.get("/v1/audit/verify").await;
    assert_eq!((status, &whole["whole"]), (200, &json!(true)), "{whole}");
    let gone = site.http.delete(site.url("/v1/secrets/db")).send().await.unwrap();
    assert_eq!(gone.status().as_u16(), 200);
    assert_eq!(site.get("/v1/secrets/db").await.0, 404);

    let (status, tokens) = site.get("/v1/join-tokens").await;
    assert_eq!((status, &tokens["tokens"]), (200, &json!([])), "{tokens}");
    let believed_no_more = json!({"subject": "user/eve", "reason": "she left"});
    let (status, said) = site.post("/v1/revocations", &believed_no_more).await;
    assert_eq!(status, 200, "{said}");
    let (_, list) = site.get("/v1/revocations").await;
    assert_eq!(list["revocations"][0]["subject"], "user/eve", "{list}");
    let again = site.http.delete(site.url("/v1/revocations?subject=user/eve"));
    assert_eq!(again.send().await.unwrap().status().as_u16(), 200);
    assert_eq!(site.get("/v1/revocations").await.1["revocations"], json!([]));
    site.stop().await;
}
