// The page that asks for the token: keeps the query of the address for after the login.

document.querySelector("form").action = `login${location.search}`;
