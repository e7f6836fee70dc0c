//! The id of the container this process runs in, as DogStatsD wants it in `|c:`.
//!
//! From `/proc/self/cgroup`: the last part of a path that looks like an id (cgroup 1, and cgroup 2
//! in the host's namespace). Else from `/proc/self/mountinfo`: the folder that holds the
//! container's hostname or resolv.conf (cgroup 2 in a namespace of its own).

/// The id. None: no container, or its id cannot be seen. Two small files, read once.
pub(crate) fn id() -> Option<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    in_cgroup(&read("/proc/self/cgroup")).or_else(|| in_mounts(&read("/proc/self/mountinfo")))
}

fn in_cgroup(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let path = line.splitn(3, ':').nth(2)?;
        let last = path.rsplit('/').next()?;
        let last = last.strip_suffix(".scope").unwrap_or(last);
        // docker-ID, cri-containerd-ID, crio-ID, or the id alone.
        (0..last.len())
            .filter(|at| *at == 0 || last.as_bytes()[at - 1] == b'-')
            .find_map(|at| last.get(at..).filter(|part| is_id(part)))
            .map(str::to_owned)
    })
}

fn in_mounts(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let root = line.split(' ').nth(3)?;
        let mut parts = root.rsplit('/');
        let file = parts.next()?;
        if !matches!(file, "hostname" | "resolv.conf" | "hosts") {
            return None;
        }
        // A pod's sandbox holds these files for all its containers; its id is not the container's.
        if root.contains("/sandboxes/") {
            return None;
        }
        parts.find(|part| is_id(part)).map(str::to_owned)
    })
}

/// 64 hexadecimal digits; or 32, a dash and decimals (ECS); or a UUID.
fn is_id(text: &str) -> bool {
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    let task = |(task, rest): (&str, &str)| {
        task.len() == 32
            && hex(task)
            && (1..=20).contains(&rest.len())
            && rest.bytes().all(|b| b.is_ascii_digit())
    };
    let uuid = || {
        let lengths: Vec<usize> = text.split(['-', '_']).map(str::len).collect();
        (lengths == [8, 4, 4, 4, 12] || lengths == [8, 4, 4, 4, 4])
            && text.split(['-', '_']).all(hex)
    };
    (text.len() == 64 && hex(text)) || text.split_once('-').is_some_and(task) || uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn cgroups_of_the_usual_runtimes() {
        let found = |path: &str| in_cgroup(&format!("12:pids:/\n3:memory:{path}\n"));
        for path in [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
            format!("/kubepods/besteffort/pod9f/{ID}"),
        ] {
            assert_eq!(found(&path).as_deref(), Some(ID), "{path}");
        }
        let ecs = "/ecs/34dc0b5e626f2c5c4c5170e34b10e765-1234567890";
        assert_eq!(found(ecs).as_deref(), Some("34dc0b5e626f2c5c4c5170e34b10e765-1234567890"));
        for none in ["/", "/user.slice/user-1000.slice/session-2.scope", "/x/abc", "/é-é"] {
            assert_eq!(found(none), None, "{none}");
        }
        assert_eq!(in_cgroup("0::/\n"), None);
        assert_eq!(in_cgroup("nonsense"), None);
    }

    #[test]
    fn mounts_where_the_cgroup_is_hidden() {
        let line = |root: &str| format!("608 554 254:1 {root} /etc/hostname rw - ext4 /dev/x rw\n");
        let docker = line(&format!("/var/lib/docker/containers/{ID}/hostname"));
        assert_eq!(in_mounts(&docker).as_deref(), Some(ID));
        let sandbox = line(&format!("/io.containerd.grpc.v1.cri/sandboxes/{ID}/hostname"));
        assert_eq!(in_mounts(&sandbox), None);
        assert_eq!(in_mounts(&line("/etc/hostname")), None);
        assert_eq!(in_mounts("nonsense"), None);
    }
}
