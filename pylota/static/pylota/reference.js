// Reads the description of this deployment; nothing is asked of any other host.
const place = document.getElementById("reference");

SwaggerUIBundle({
  domNode: place,
  url: place.dataset.description,
  validatorUrl: null,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  filter: true,
  persistAuthorization: false, // a key is forgotten with the page
  displayRequestDuration: true,
  syntaxHighlight: { activated: true },
});
