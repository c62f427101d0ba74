// Starts Swagger UI on the page of /docs. A file of its own, since the page allows no inline script.
"use strict";

const root = document.getElementById("swagger-ui");

SwaggerUIBundle({
  url: root.dataset.document,
  domNode: root,
  deepLinking: true,
  // The key stays in this page: nothing is kept when it is closed.
  persistAuthorization: false,
  // No request to swagger.io, which would otherwise be asked whether the document is valid.
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
});
