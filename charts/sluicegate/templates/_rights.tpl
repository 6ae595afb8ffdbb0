{{- /* Plurals of the kinds that people write, from the CRDs: the operator alone writes brokerregistrations. */}}
{{- define "sluicegate.kinds" -}}
{{- $kinds := list }}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" }}
{{- $kinds = append $kinds ($path | base | trimPrefix "sluicegate.dev_" | trimSuffix ".yaml") }}
{{- end }}
{{- without $kinds "brokerregistrations" | join ", " }}
{{- end }}
{{- /* What the operator may do where its clusters are: in every namespace, or in the one that it watches. */}}
{{- define "sluicegate.rights" -}}
- apiGroups: [sluicegate.dev]
  resources: [{{ include "sluicegate.kinds" . }}]
  verbs: [list, watch]
- apiGroups: [sluicegate.dev]
  resources: [brokerclusters]
  verbs: [get]
- apiGroups: [sluicegate.dev]
  resources: [{{ include "sluicegate.kinds" . | replace "," "/status," }}/status]
  verbs: [patch]
# The finalizers of Topics with deletionPolicy Delete and of KafkaUsers; nothing else of what people write is changed.
- apiGroups: [sluicegate.dev]
  resources: [topics, kafkausers]
  verbs: [patch]
# The operator writes these and takes them away; people read them.
- apiGroups: [sluicegate.dev]
  resources: [brokerregistrations]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [sluicegate.dev]
  resources: [brokerregistrations/status]
  verbs: [patch]
# Clusters that check owner references ask for this of whoever sets blockOwnerDeletion.
- apiGroups: [sluicegate.dev]
  resources: [auditpipelines/finalizers, brokerclusters/finalizers, brokerlisteners/finalizers, kafkausers/finalizers]
  verbs: [update]
# Children are written by server-side apply: patch, and create where there is none. Their owners' end deletes them. They
# are watched, and nothing is asked for twice.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [configmaps, serviceaccounts]
  verbs: [get, list, watch, create, patch]
# Each broker of a listener that is exposed has a Service, which goes when the broker does or the listener is not exposed
# any more.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
# Who runs AuditPipelines: a CronJob, or what a Spark operator runs. Deleted when spec.mode changes, and when they are old.
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list]
- apiGroups: [sparkoperator.k8s.io]
  resources: [scheduledsparkapplications]
  verbs: [get, create, patch, delete]
- apiGroups: [sparkoperator.k8s.io]
  resources: [sparkapplications]
  verbs: [list]
- apiGroups: [spark.apache.org]
  resources: [sparkapplications]
  verbs: [list, create, delete]
# Controllers that share a journal get a Role of their own. Nobody can grant what he may not do himself, so the
# operator has the same rights: update and delete of ConfigMaps, and Leases. It deletes files that no pod uses.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [update, delete]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
# Deleted when a cluster says networkPolicies: false.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# Deleted to be replaced.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
# Made for nodes, and marked with the id of the cluster whose data they hold; they grow with spec.storage. A claim of
# somebody else is asked for by name. They are deleted by Kubernetes, when a cluster says so: who sets owners of what may
# delete it, say clusters that check owner references.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
# The readiness gate sluicegate.dev/unfenced; a broker's rack, sluicegate.dev/rack; labels that a pod has lost.
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
{{- if .Values.rbac.secrets }}
# Credentials for external clusters, and of KafkaUsers, which the operator makes.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
{{- end }}
# Written for people; listed to say why a StatefulSet's pod is refused.
- apiGroups: [""]
  resources: [events]
  verbs: [create, update, list]
{{- end }}
