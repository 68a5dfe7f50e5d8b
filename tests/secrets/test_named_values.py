"""Credentials that only the words around them name: what is found, and which honest texts look like them."""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable

import pytest

from gatewright.secrets.redaction import redact_output
from gatewright.secrets.scanner import SecretScanner
from gatewright.secrets.values import looks_generated

SCANNER = SecretScanner()
SMALL, ALL = string.ascii_lowercase + string.digits, string.ascii_letters + string.digits
HEX, BASE64 = "0123456789abcdef", ALL + "+/"


class Draws:
    """Values as generators make them, the same ones on every run; they open nothing."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - see above

    def text(self, length: int, letters: str = ALL) -> str:
        """Letters, with one capital letter, one small one and two digits in the first places."""
        fixed = "k7Q4" if letters in (ALL, BASE64) else "a1b2"
        return fixed + "".join(self._random.choice(letters) for _ in range(length - 4))

    def number(self, digits: int) -> str:
        return str(self._random.randrange(10 ** (digits - 1), 10**digits))


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


#: By what it is: a text with the secret that ``Draws`` gives.
SECRETS: dict[str, Callable[[Draws], tuple[str, str]]] = {
    "an AWS secret key in an environment": lambda d: ("AWS_SECRET_ACCESS_KEY={}", d.text(40, BASE64)),
    "an AWS secret key in its file": lambda d: ("[default]\naws_secret_access_key = {}\n", d.text(40, BASE64)),
    "an AWS secret key in JSON": lambda d: ('{{"SecretAccessKey": "{}"}}', d.text(40, BASE64)),
    "an AWS secret key in a program": lambda d: ('client("s3", aws_secret_access_key="{}")', d.text(40, BASE64)),
    "a Google client secret": lambda d: ("client_secret: {}", "GOCSPX-" + d.text(28)),
    "a Google refresh token": lambda d: ("refresh: {}", "1//0" + d.text(60)),
    "a Google access token": lambda d: ("got {}", "ya29." + d.text(100)),
    "a Discord webhook": lambda d: ("https://discord.com/api{}", f"/webhooks/{d.number(18)}/{d.text(68)}"),
    "a Discord webhook of a version": lambda d: ("https://discordapp.com/api/v10{}", f"/webhooks/{d.number(18)}/{d.text(68)}"),
    "a Discord bot token": lambda d: ("run('{}')", f"{encoded(d.number(18))}.Ga1B2c.{d.text(38)}"),
    "a Telegram bot token": lambda d: ("bot {}", f"{d.number(10)}:AA{d.text(33)}"),
    "a login for Docker": lambda d: ('{{"auths": {{"r.corp.io": {{"auth": "{}"}}}}}}', encoded(f"bob:{d.text(12)}")),
    "a login for npm": lambda d: ("_auth={}", encoded(f"bob:{d.text(12)}")),
    "a token for npm": lambda d: ("//npm.corp.io/:_authToken={}", d.text(36, HEX)),
    "a basic authorization": lambda d: ("Authorization: Basic {}", encoded(f"bob:{d.text(12)}")),
    "a login of curl": lambda d: ("curl -u bob:{} https://api.corp.io", d.text(12)),
    "a password of sshpass": lambda d: ("sshpass -p {} ssh bob@host", d.text(12)),
    "a password in a JDBC URL": lambda d: ("jdbc:postgresql://db/app?user=app&password={}", d.text(12)),
    "a password without digits": lambda d: ("url=jdbc:mysql://db/app?user=app&password={}", d.text(12).replace("7", "x")),
    "a password of SQL Server": lambda d: ("jdbc:sqlserver://h:1433;user=sa;password={};encrypt=true", d.text(12)),
    "a password of an ADO string": lambda d: ("Server=h;User ID=sa;Pwd={};Encrypt=true", d.text(12)),
    "a line of netrc": lambda d: ("machine api.corp.io login bob password {}", d.text(12)),
    "lines of netrc": lambda d: ("machine api.corp.io\n  login bob\n  password {}\n", d.text(12)),
    "a line of pgpass": lambda d: ("db.corp.io:5432:app:bob:{}", d.text(12)),
    "a URL with a password": lambda d: ("postgres://app:{}@db.corp.io:5432/app", d.text(12)),
    "a URL with a short password": lambda d: ("https://bob:{}@git.corp.io/x.git", d.text(8)),
    "a URL with a hexadecimal password": lambda d: ("redis://:{}@cache.corp.io/0", d.text(16, HEX)),
    "a URL with a token": lambda d: ("https://oauth2:{}@gitlab.corp.io/x.git", d.text(20)),
    "an account key of Azure": lambda d: ("AccountName=a;AccountKey={};", d.text(86, BASE64) + "=="),
    "a signature of Azure": lambda d: ("https://a.blob.core.windows.net/c?sp=r&sig={}", d.text(43) + "%3D"),
    "a client secret of Azure": lambda d: ("id {}", "aB1" + "8Q~" + d.text(34)),
    "a key of WireGuard": lambda d: ("[Interface]\nPrivateKey = {}\n", d.text(43, BASE64) + "="),
    "a key of PuTTY": lambda d: ("Public-Lines: 1\nAAAA\n{}", "Private-Lines: 1\n" + d.text(44, BASE64)),
    "a key of OpenVPN": lambda d: ("{}", "-----BEGIN OpenVPN Static key V1-----\n" + d.text(32, HEX)),
    "a token of a cluster": lambda d: ("users:\n- user:\n    token: {}\n", d.text(60)),
    "a password in YAML": lambda d: ('  db_password: "{}"', d.text(16)),
    "a password in XML": lambda d: ("<password>{}</password>", d.text(14)),
    "a password in an environment": lambda d: ("export DB_PASSWORD={}", d.text(16)),
    "a key in hexadecimal digits": lambda d: ("TWILIO_AUTH_TOKEN={}", d.text(32, HEX)),
    "a key of an application": lambda d: ("secret_key_base: {}", d.text(128, HEX)),
    "a token of Notion": lambda d: ("{}", "ntn_" + d.text(46)),
    "a key of Alibaba": lambda d: ("{}", "LTAI" + d.text(20)),
    "a key of NuGet": lambda d: ("{}", "oy2" + d.text(43, SMALL)),
    "a key of New Relic": lambda d: ("{}", "NRAK-" + d.text(27).upper()),
    "a token of Sentry": lambda d: ("{}", "sntrys_" + d.text(60)),
    "a token of PlanetScale": lambda d: ("{}", "pscale_tkn_" + d.text(43)),
    "a token of crates.io": lambda d: ("{}", "cio" + d.text(32)),
    "a key of Firebase": lambda d: ("{}", f"AAAA{d.text(7)}:{d.text(140)}"),
}


#: Passwords as people choose them.
CHOSEN = ("Summer2024!", "Acme-Prod-2023", "blue.Kettle77", "Zebra#4471", "rainy_Harbour19")
#: Where a password stands and nothing else does.
PLACES = [
    "mysql -u root -p{} shop < dump.sql",
    "mysqldump --single-transaction -p'{}' shop",
    "mariadb-admin -p{} status",
    "curl -u bob:{} https://api.corp.io",
    "curl --user bob:{} https://api.corp.io",
    "sshpass -p '{}' ssh bob@host",
    "PGPASSWORD={} psql -h db app",
    "export MYSQL_PWD='{}'",
    'ENV REDISCLI_AUTH="{}"',
    "ansible_become_password: {}",
    "docker login -u bob --password {} r.corp.io",
    "wget --http-password={} https://corp.io/x",
    "keytool -list -storepass {}",
    "openssl rsa -passin pass:{} -in a",
    "CREATE USER app IDENTIFIED BY '{}';",
    "ALTER ROLE app WITH PASSWORD '{}';",
    "db_password: {}",
    'DB_PASSWORD="{}"',
    "spring.datasource.password={}",
    '{{"smtpPassword": "{}"}}',
    "redis.password = '{}'",
    "<db_password>{}</db_password>",
]
HASHES: dict[str, Callable[[Draws], str]] = {
    "bcrypt": lambda d: f"$2b$12${d.text(53)}",
    "bcrypt of PHP": lambda d: f"$2y$10${d.text(53)}",
    "SHA-512": lambda d: f"$6$rounds=5000${d.text(16)}${d.text(86)}",
    "SHA-256": lambda d: f"$5${d.text(16)}${d.text(43)}",
    "yescrypt": lambda d: f"$y$j9T${d.text(22)}${d.text(43)}",
    "argon2": lambda d: f"$argon2id$v=19$m=65536,t=3,p=4${d.text(22)}${d.text(43)}",
    "Apache": lambda d: f"$apr1${d.text(8)}${d.text(22)}",
    "Django": lambda d: f"pbkdf2_sha256$600000${d.text(22)}${d.text(43)}=",
    "LDAP": lambda d: "{SSHA}" + d.text(32) + "==",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", [*CHOSEN, Draws(7).text(16)])
def test_password_in_a_place_for_passwords_is_found(place: str, value: str) -> None:
    data = f"before\n{place.format(value)}\nafter\n".encode()
    assert [hit for hit in SCANNER.find(data) if value.encode() in data[hit.start : hit.end]]


@pytest.mark.parametrize("form", ["password: {}", '"password_hash": "{}"', "bob:{}:19000:0:99999:7:::", "\nbob:{}\n"])
@pytest.mark.parametrize("kind", HASHES)
def test_hash_of_a_password_in_a_configuration_is_found(kind: str, form: str) -> None:
    value = HASHES[kind](Draws(3))
    data = f"\n{form.format(value)}\n".encode()
    assert [hit for hit in SCANNER.find(data) if value.encode() in data[hit.start : hit.end]]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_that_its_surroundings_name_is_found(kind: str, seed: int) -> None:
    form, value = SECRETS[kind](Draws(seed))
    data = f"before\n{form.format(value)}\nafter\n".encode()
    hits = SCANNER.find(data)
    assert [hit for hit in hits if value.encode() in data[hit.start : hit.end]]
    assert value.encode() not in redact_output("stdout", data, SCANNER).data


@pytest.mark.parametrize(
    "text",
    [
        *(
            "postgres://postgres:postgres@localhost/db",
            "https://user:Passw0rd123!@host.io/",
            "redis://:${REDIS_PASSWORD}@cache",
        ),
        *("mysql://root:my-secret-pw@db", "https://bob:{password}@host.io", "amqp://guest:guest@mq", "http://[::1]:8080/a@b"),
        *("jdbc:h2:mem:a;password=changeit", "password=self.ssl_keyfile_password,", "password=os.environ['DB_PASSWORD1x']"),
        *("login(user, password=generate_password(12))", "pwd=/work/gatewright/ws", "password=secrets/db/Version1x"),
        *("machine HOST login USER password PASSWORD", "login name then password twice1", "a.c:5432:note:here:seventeen"),
        *(
            '"auth": "enabled1"',
            '"auth": "' + encoded("user:password") + '"',
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "basic training",
        ),
        *(
            "Authorization: Basic czZCaGRSa3F0MzpnWDFmQmF0M2JW",
            '"access_token":"2YotnFZFEjr1zCsicMWpAA"',
            "curl -u user:password x",
        ),
        *(
            "secret = 63d42d26156fcc761e57da4128e9881d5bdf3bf9",
            "token = lexer.nextToken2Value",
            "AKIA",
            "ntn_short",
            "LTAInner",
        ),
        *(
            '"NextToken": "CpHNsscimcV5oH7bSbub03CI2Qms5+ypNpNm"',
            "<nextToken>q5GwEl5bMGjKq6YmhpDLJ7hEw</nextToken>",
            "nextContinuationToken=1w41l63U0xa8q7smH50vCxyTQqdxo6",
        ),
        *("prompt_tokens: 1234567890123", "max_tokens = 4096", "tokenizer: cl100k_base_2024_Q1", "edit /etc/passwd: allowed"),
        *("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "secret_key_base: <%= ENV['SECRET_KEY_BASE'] %>"),
        *(
            "https://discord.com/api/webhooks/ID/TOKEN",
            "https://discord.com/developers/docs",
            "precio12 cio",
            "AAAAB3NzaC1yc2EAAAA",
        ),
        *(
            "mysql -u root -p shop",
            "mysql -h db -P 3306 -u root -p$MYSQL_ROOT_PASSWORD",
            "mysql -uroot -psecret123 shop",
            "mysql --port=3306 --protocol=TCP",
            "mysql -p < my-file_2024.sql",
        ),
        *(
            "PGPASSWORD=$PGPASSWORD psql",
            "PGPASSWORD=postgres psql",
            "export MYSQL_PWD=",
            'os.environ["PGPASSWORD"] = config.Password2',
        ),
        *("curl -u bob:$TOKEN x", "docker run -u 1000:1000 image2", "sshpass -p $PASS ssh a", "chown -u user:group12 x"),
        *("IDENTIFIED BY 'password'", "WITH PASSWORD '${DB_PASSWORD}'", "--password-stdin", "--password-file=/run/secrets/db2"),
        *(
            "db_password: ${DB_PASSWORD}",
            "db_password = get_secret_2('Db')",
            "DB_PASSWORD=changeme123",
            "admin_password: Passw0rd1!",
        ),
        *(
            "db_password_file: /run/secrets/Db-2024",
            "root_password_length: 24",
            "app_password: !vault |",
            "user_password = form.Password2",
        ),
        *(
            "regex = r'\\$2b\\$[0-9]{2}\\$'",
            "hash: $2b$12$" + "x" * 53,
            "$2b$12$" + "K" * 53,
            "cost $2a$10 and $6$ each",
            "{SSHA}",
        ),
        *(
            'setting("token", "the-name-of-a-header")',
            "api_key: your-api-key-here-2024",
            "password: correct-horse-battery-staple",
        ),
    ],
)
def test_an_honest_text_that_looks_like_one_is_left_alone(text: str) -> None:
    assert SCANNER.find(text.encode()) == ()


@pytest.mark.parametrize(
    ("value", "generated"),
    [
        *(("FljXGzZ4", True), ("x8Kd2fQ7aZ", True), ("36909a39e5e32bc5", True), ("Tr0ub4dor&3", True)),
        *(("MySecretPass12", False), ("Passw0rd!", False), ("hunter2", False), ("Winter2024", False), ("a-b-c-d-e-f", False)),
        *(("self.key_password", False), ("${TOKEN_1a2B}", False), ("12:34:56.789", False), ("short1A", False)),
    ],
)
def test_a_generated_value_changes_its_kind_of_letters(value: str, generated: bool) -> None:
    assert looks_generated(value) is generated
