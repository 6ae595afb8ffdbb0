"""The dashboards of the chart; a unit test fails when charts/sluicegate/dashboards/*.json has drifted from them."""
