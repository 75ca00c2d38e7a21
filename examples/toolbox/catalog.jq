# Makes entities of a Backstage catalog of `raftsched jobs list --all -o json`: a Resource for each job, of its owner.
#
#   raftsched jobs list --all -o json | jq -r --arg page https://n1.example.com:7401 -f catalog.jq > catalog-info.yaml
#
# A name there has at most 63 characters, and letters, digits and - _ . between its ends; where that of a job is none, it
# has the job's id.
.items[]
| select(.namespace != "_system")
| "\(.namespace).\(.name // .id)" as $ref
| {
    apiVersion: "backstage.io/v1alpha1",
    kind: "Resource",
    metadata: {
      name: (if $ref | test("^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$") then $ref else .id end),
      title: "\(.namespace)/\(.name // .id)",
      description: (.description // "A job of raftsched."),
      annotations: {"raftsched/job": .id},
      links: [{url: "\($page)/ui/jobs/\(.id)", title: "Job"}]
    },
    spec: {
      type: "job",
      owner: (.owner // "unknown"),
      system: .namespace
    }
  }
| "---", tojson # documents of YAML
