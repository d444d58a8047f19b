//! Calls by the names of the contract.

use std::time::{Duration, Instant};

use prost::Message;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// How long a test waits for something to become true.
const PATIENCE: Duration = Duration::from_secs(20);

/// Calls a method by its name in the contract.
pub(crate) async fn call<Q, A>(channel: &Channel, method: &str, request: Q) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path: PathAndQuery = format!("/{method}").parse().unwrap();
    let codec = ProstCodec::<Q, A>::default();
    Ok(client.unary(Request::new(request), path, codec).await?.into_inner())
}

/// Looks until `found` finds something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut found: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The standard services answer: health says that `service` serves, reflection knows it.
pub(crate) async fn standard_services(channel: &Channel, service: &str) {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    for asked in ["", service] {
        let request = HealthCheckRequest { service: asked.to_owned() };
        let health = HealthClient::new(channel.clone()).check(request).await.unwrap();
        assert_eq!(health.into_inner().status, 1, "{asked:?} serves");
    }
    let ask = |message_request| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message_request),
    };
    let requests = tokio_stream::iter([
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(service.to_owned())),
    ]);
    let mut client = ServerReflectionClient::new(channel.clone());
    let mut answers = client.server_reflection_info(requests).await.unwrap().into_inner();
    let mut next = async || answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(listed) = next().await else { panic!("no list") };
    assert!(listed.service.iter().any(|one| one.name == service), "{listed:?}");
    let MessageResponse::FileDescriptorResponse(files) = next().await else { panic!("no file") };
    assert!(!files.file_descriptor_proto.is_empty());
    earlier_reflection(channel, service).await;
}

/// Tools of earlier years ask for reflection by its earlier name.
async fn earlier_reflection(channel: &Channel, service: &str) {
    use tonic_reflection::pb::v1alpha::ServerReflectionRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_response::MessageResponse;

    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::FileContainingSymbol(service.to_owned())),
    };
    let mut client = ServerReflectionClient::new(channel.clone());
    let answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::FileDescriptorResponse(files)) = answer.message_response else {
        panic!("no file")
    };
    assert!(!files.file_descriptor_proto.is_empty());
}
